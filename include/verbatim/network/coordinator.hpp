// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The one place that knows who is in a job: ranks hold a session to it (exchanger.hpp).
///
/// It gathers and tells: members, records, offers, who is lost. All verdicts come from here, in one
/// order. A client that is not of the job (no secret, another job, garbage, silence) is dropped and
/// logged; it learns nothing and delays nobody. docs/network_protocol.md describes the wire.
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
  /// "host:port"; port 0 is any free one, an empty host is every address of this machine.
  std::string listen = "127.0.0.1:0";
  std::optional<Secret> secret = std::nullopt;  ///< Without: loopback only.
  std::string job = "verbatim";
  std::chrono::nanoseconds detect = std::chrono::seconds{5};  ///< A rank silent so long is lost.
  /// Clients that have proved nothing yet. One more, and the oldest of them is dropped.
  std::uint32_t max_pending = 1024;
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds{5};
};

/// Runs in a thread of its own, which blocks all signals. The destructor ends every session: ranks
/// that have not left take that for the coordinator's death. Belongs to the process: in a forked
/// child it does nothing.
class Coordinator {
 public:
  /// No secret, and an address that others can reach: `permission_denied`. An address that is in
  /// use: `busy`.
  [[nodiscard]] static Result<Coordinator> open(const CoordinatorOptions& options);
  Coordinator(Coordinator&&) noexcept;
  Coordinator& operator=(Coordinator&&) noexcept;
  ~Coordinator();

  /// Where it listens: "127.0.0.1:40123".
  [[nodiscard]] const std::string& address() const noexcept;
  [[nodiscard]] std::uint16_t port() const noexcept;

  /// For a launcher, which knows that the process of a rank has ended: if it had not joined yet,
  /// the others would wait for it. Any thread.
  void rank_ended(Rank rank);

 private:
  explicit Coordinator(std::unique_ptr<detail::CoordinatorLoop> loop) noexcept;
  std::unique_ptr<detail::CoordinatorLoop> loop_;
};

}  // namespace verbatim
