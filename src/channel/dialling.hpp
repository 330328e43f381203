// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file dial() as a state machine that never waits: connects, meets, and retries if the listener
/// drops it for others.
///
/// To drive it, call step() until it returns true. Each time it returns false, wait for wanted() on
/// fd(), or for due(). It must not move.
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "channel/handshake.hpp"
#include "channel/tcp.hpp"
#include "verbatim/channel/rendezvous.hpp"

namespace verbatim::detail {

class Dialling {
 public:
  using Clock = std::chrono::steady_clock;
  Dialling(const ProtectionDomain& domain, std::string_view address, const DialOptions& options);
  Dialling(const Dialling&) = delete;
  Dialling& operator=(const Dialling&) = delete;

  /// Call it before the first step. If needs_lookup(), it blocks, at most until the deadline.
  [[nodiscard]] Result<void> look_up();
  /// Whether the address is a name that must be looked up.
  [[nodiscard]] bool needs_lookup() const;

  /// True: call take().
  [[nodiscard]] Result<bool> step();
  [[nodiscard]] int fd() const noexcept;        ///< -1: only the time counts.
  [[nodiscard]] short wanted() const noexcept;  ///< Events of poll(2).
  [[nodiscard]] Clock::time_point due() const noexcept;
  [[nodiscard]] Clock::time_point deadline() const noexcept { return call_.deadline; }
  [[nodiscard]] Connection take() && { return (*std::move(handshake_)).take(); }

 private:
  const ProtectionDomain domain_;
  const std::string address_;
  const DialOptions options_;
  const BoundedCall call_;
  const MeetingTerms terms_;
  std::vector<SocketAddress> addresses_{};
  Clock::time_point again_{};  ///< When it retries; 0: it is trying.
  Clock::duration pause_ = std::chrono::milliseconds{5};
  std::optional<Connecting> connecting_{};
  std::optional<Handshake> handshake_{};
};

}  // namespace verbatim::detail
