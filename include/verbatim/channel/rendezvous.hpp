// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two processes meet over TCP and leave with a channel each.
///
///     auto listener = VERBATIM_TRY(Listener::open(domain, "0.0.0.0:7000"));   // one side
///     auto channel  = VERBATIM_TRY(listener.accept(30s));
///
///     auto channel  = VERBATIM_TRY(dial(domain, "storage-7:7000"));           // the other
///
/// One call on each side does all of it: connects (IPv4, IPv6 or a name), exchanges endpoints,
/// agrees, connects the queue pairs, and waits until the peer has done the same. When it returns,
/// either side may send. The TCP connection stays, for close() only: see Channel::close().
///
/// Nothing waits for ever, no signal is raised, and nothing that a peer sends is trusted. What goes
/// wrong is one error: `timed_out` (nobody there, or too slow: the field says what was waited for),
/// `closed` (the peer went away), `malformed` (it talks something else), `incompatible` (the two
/// devices cannot talk), `not_found` (the host), or whatever preparing the channel gave.
///
/// Who can reach the port can connect: there is no authentication and no encryption, as in RDMA
/// itself. Listen on the address of the network that you trust.
///
/// Ownership: a Listener is move-only and keeps its domain alive; the channels are independent.
/// Threads:   accept() may be called by several threads at once; dial() by any.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim {

/// Called before the peer can send, so that its first messages find receives: keep the Pendings
/// that `prepared.receive()` returns, and wait for them later. An error ends the meeting with it.
using PrepareChannel = std::function<Result<void>(PreparedChannel& prepared)>;

struct ListenOptions {
  ChannelOptions channel{};
  PrepareChannel prepare{};
  /// For a client that has connected: so long, and not longer, can one that hangs hold accept() up.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds{5};
  int backlog = 128;  ///< Clients that may wait for an accept().
};

class Listener {
 public:
  /// `address` is "host:port"; "[::1]:7000" for IPv6, ":7000" for all addresses of this machine,
  /// port 0 for any that is free. An address in use is `busy`.
  [[nodiscard]] static Result<Listener> open(const ProtectionDomain& domain,
                                             std::string_view address, ListenOptions options = {});

  /// The next client's channel. `timed_out` with field "connection" when none came within `limit`;
  /// one that came has its handshake_timeout besides. Any other error concerns the client that
  /// came, or this process: the listener is as good as before.
  [[nodiscard]] Result<Channel> accept(Timeout limit = std::chrono::seconds{10}) const;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// Numeric, with the port that it really has.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Readable when a client waits. For epoll; not to be read.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  Listener(ProtectionDomain domain, ListenOptions options, detail::FileDescriptor socket);
  ProtectionDomain domain_;
  ListenOptions options_;
  detail::FileDescriptor socket_;
  std::uint16_t port_ = 0;
  std::string address_{};
};

struct DialOptions {
  /// For everything, from looking the name up to the peer's being ready.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  ChannelOptions channel{};
  PrepareChannel prepare{};
};

/// A channel to who accepts at `address`. While nobody listens there it tries again, until the
/// deadline.
[[nodiscard]] Result<Channel> dial(const ProtectionDomain& domain, std::string_view address,
                                   const DialOptions& options = {});

}  // namespace verbatim
