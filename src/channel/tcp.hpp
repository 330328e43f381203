// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Stream connections for the rendezvous: non-blocking sockets; every wait has a deadline.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "channel/private_descriptor.hpp"
#include "channel/socket_address.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// Waits until one of `events` (of poll(2)) is there; false on a time-out. Signals do not end it.
[[nodiscard]] bool wait_until_ready(int fd, short events,
                                    std::chrono::steady_clock::time_point deadline) noexcept;
void sleep_until(std::chrono::steady_clock::time_point when) noexcept;

/// A connection to the first address that answers. It retries an address that refuses until the
/// deadline, because the peer may not have started yet. A state machine that never waits: call
/// step() until it returns true; each time it returns false, wait for fd() to be writable, or for
/// due().
class Connecting {
 public:
  using Clock = std::chrono::steady_clock;
  /// At least one address.
  Connecting(std::vector<SocketAddress> addresses, const BoundedCall& call)
      : addresses_(std::move(addresses)), call_(call) {}
  [[nodiscard]] Result<bool> step();
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }  ///< -1: only the time counts.
  [[nodiscard]] Clock::time_point due() const noexcept { return due_; }
  [[nodiscard]] PrivateDescriptor take() noexcept { return std::move(socket_); }

 private:
  int begin() noexcept;
  int finish() noexcept;

  std::vector<SocketAddress> addresses_;
  BoundedCall call_;
  std::size_t next_ = 0;  ///< The one being tried; after the last: the pause before the next round.
  PrivateDescriptor socket_{};
  Clock::time_point due_{};
  Clock::duration pause_ = std::chrono::milliseconds{5};
  int last_ = 0;           ///< Why the last one failed.
  int refused_ = 0;        ///< The errno of one that may be there later.
  bool may_come_ = false;  ///< In this round there was one.
};

/// The same, and waits.
[[nodiscard]] Result<PrivateDescriptor> connect_to_any(std::span<const SocketAddress> addresses,
                                                       const BoundedCall& call);

/// On the first address that is available.
[[nodiscard]] Result<PrivateDescriptor> listen_on_any(std::span<const SocketAddress> addresses,
                                                      int backlog, const BoundedCall& call);
/// The next client, if one is there. Never waits.
[[nodiscard]] Result<std::optional<PrivateDescriptor>> try_accept(int listener,
                                                                  const char* operation) noexcept;
/// A port that nobody listens on can be assigned to the very socket that dials it, which then talks
/// to itself. connect_to_any() treats that as a refusal.
[[nodiscard]] bool is_connected_to_itself(int fd) noexcept;
[[nodiscard]] Result<SocketAddress> local_address(int fd, const char* operation) noexcept;
[[nodiscard]] Result<SocketAddress> peer_address(int fd, const char* operation) noexcept;

}  // namespace verbatim::detail
