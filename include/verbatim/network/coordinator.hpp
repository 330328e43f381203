// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The one place that knows who is in a job. Each rank holds a session with it
/// (exchanger.hpp).
///
/// It collects and distributes members, records, offers and losses. All decisions come from here,
/// in one order. A client that does not belong to the job (no secret, another job, garbage,
/// silence) is dropped and logged; it learns nothing and delays nobody. manual/network_protocol.md
/// describes the wire.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "verbatim/base/error.hpp"
#include "verbatim/network/identity.hpp"
#include "verbatim/network/secret.hpp"

namespace verbatim {

namespace detail {
class CoordinatorLoop;
}

struct CoordinatorOptions {
  Rank world = 1;
  /// "host:port"; port 0 is any free port, an empty host is every address of this machine.
  std::string listen = "127.0.0.1:0";
  std::optional<Secret> secret = std::nullopt;  ///< Default: loopback only.
  std::string job = "verbatim";
  std::chrono::nanoseconds detect =
      std::chrono::seconds{5};  ///< After this much silence a rank is lost.
  /// Clients that are not yet authenticated. One more displaces the oldest of them.
  std::uint32_t max_pending = 1024;
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds{5};
};

/// Runs in its own thread, which blocks all signals. The destructor ends every session: ranks that
/// have not left see it as the coordinator's death. In a forked child it does nothing.
class Coordinator {
 public:
  /// `permission_denied` without a secret on an address that others can reach; `busy` if the
  /// address is in use.
  [[nodiscard]] static Result<Coordinator> open(const CoordinatorOptions& options);
  Coordinator(Coordinator&&) noexcept;
  Coordinator& operator=(Coordinator&&) noexcept;
  ~Coordinator();

  /// Where it listens: "127.0.0.1:40123".
  [[nodiscard]] const std::string& address() const noexcept;
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// For a launcher that knows that a rank's process has ended: if it had not joined yet, the
  /// others would wait for it. Any thread.
  void rank_ended(Rank rank);

 private:
  explicit Coordinator(std::unique_ptr<detail::CoordinatorLoop> loop) noexcept;
  std::unique_ptr<detail::CoordinatorLoop> loop_;
};

}  // namespace verbatim
