// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where a Listener's clients arrive: a bounded number of handshakes, side by side.
///
/// turn() does what is possible now and never waits; fd() is readable when there is something to
/// do. One epoll descriptor holds the listening socket, those of the handshakes, and a timer for
/// the earliest deadline and for connections that nobody has taken yet.
///
/// Threads: turn() takes a lock, so several threads may call it.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "channel/handshake.hpp"
#include "channel/private_descriptor.hpp"
#include "channel/socket_address.hpp"
#include "verbatim/channel/rendezvous.hpp"

namespace verbatim::detail {

class Reception {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Reception>> open(const ProtectionDomain& domain,
                                                               std::string_view address,
                                                               ListenOptions options);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  [[nodiscard]] Result<std::optional<Connection>> turn();
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  [[nodiscard]] const SocketAddress& local() const noexcept { return local_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  /// Increases with each client, so the first in the map is the oldest.
  using GuestNumber = std::uint64_t;

  Reception(const ProtectionDomain& domain, ListenOptions options, PrivateDescriptor socket,
            const SocketAddress& local);
  [[nodiscard]] Result<void> prepare();
  void serve();
  void welcome();
  void make_room();
  void advance(GuestNumber number);
  void expire();
  void drop(std::map<GuestNumber, Handshake>::iterator guest, const Error& why);
  void set_timer() noexcept;
  [[nodiscard]] bool watch(int operation, int fd, std::uint32_t events,
                           GuestNumber number) noexcept;

  const ProtectionDomain domain_;
  const ListenOptions options_;
  const MeetingTerms terms_;
  const SocketAddress local_;
  const std::string address_;
  const pid_t process_;

  std::mutex mutex_{};
  PrivateDescriptor listening_;
  PrivateDescriptor epoll_{};
  PrivateDescriptor timer_{};
  std::map<GuestNumber, Handshake> guests_{};
  GuestNumber next_guest_;
  /// Connections that have met and were not taken yet; or an error of this process.
  std::deque<Result<Connection>> outcomes_{};
  std::chrono::steady_clock::time_point timer_at_{};
};

}  // namespace verbatim::detail
