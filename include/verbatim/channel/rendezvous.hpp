// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two processes meet at an address and leave with a channel each.
///
///     auto listener = VERBATIM_TRY(Listener::open(domain, "0.0.0.0:7000"));          // one side
///     auto [channel, client, receives] = VERBATIM_TRY(listener.accept(30s));
///
///     auto channel = VERBATIM_TRY(dial(domain, "storage-7:7000")).channel;           // the other
///
/// One call on each side does all of it: connects (IPv4, IPv6, a name, or "unix:/run/storage"),
/// exchanges endpoints and private data, agrees, connects the queue pairs, and waits until the peer
/// has done the same. When it returns, either side may send. The connection stays, for close()
/// only: see Channel::close().
///
/// Nothing waits for ever, no signal is raised, and nothing that a peer sends is trusted. What goes
/// wrong is one error: `timed_out` (nobody there, or too slow: the field says what was waited for),
/// `closed` (the peer went away), `malformed` (it talks something else, or another version),
/// `incompatible` (the two devices cannot talk), `permission_denied` (refused by the peer, or by
/// `admit`), `not_found` (the host), or whatever preparing the channel gave.
///
/// Who can reach the port can connect, unless `admit` refuses (admission.hpp). RDMA data itself is
/// neither encrypted nor authenticated. Listen on the address of the network that you trust.
///
/// Ownership: a Listener is move-only and keeps its domain alive; the channels are independent.
/// Threads:   accept() and try_accept() may be called by several threads at once; dial() by any.
/// Fork:      a Listener belongs to the process that opened it; in a child it is `forked`.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/admission.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/channel/prepared_channel.hpp"

namespace verbatim {

namespace detail {
class Reception;
}

/// What a meeting gives.
struct Connection {
  Channel channel;
  Peer peer;                                ///< With the private data that it gave.
  std::vector<Pending<Buffer>> receives{};  ///< What `prepare` returned.
};

/// What `prepare` gives back.
struct Preparation {
  std::vector<Pending<Buffer>> receives{};  ///< Goes to Connection::receives.
  /// For this peer, in place of the options' private_data.
  std::optional<std::vector<std::byte>> private_data{};
};

/// Called before the peer can send, so that its first messages find receives. A listener's knows
/// the peer's private data already. An error ends the meeting with it; an exception counts as
/// `permission_denied`. The rules for threads are those of `admit`.
using PrepareChannel =
    std::function<Result<Preparation>(PreparedChannel& prepared, const Peer& peer)>;

struct ListenOptions {
  ChannelOptions channel{};
  PrepareChannel prepare{};
  AdmitPeer admit{};
  std::vector<std::byte> private_data{};  ///< For every client; at most kMaxPrivateDataBytes.
  /// Of unix sockets: clients of other users, but for root, are refused.
  bool same_user_only = true;
  /// For a client that has connected; the handshakes of others go on meanwhile.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds{5};
  /// Handshakes side by side, each with its descriptor. When one more comes, the oldest is dropped.
  std::uint32_t max_handshakes = 256;
  int backlog = 1024;  ///< Clients that may wait in the kernel; the system has a limit of its own.
  /// Told of each client that gets no channel and why, after it was logged.
  std::function<void(const Peer& peer, const Error& why)> on_dropped{};
};

class Listener {
 public:
  /// `address` is "host:port"; "[::1]:7000" for IPv6, ":7000" for all addresses of this machine,
  /// port 0 for any that is free. "unix:/path" makes a socket file, which only the own user may use
  /// unless the options say else, and removes it at the end; "unix:@name" needs none. An address
  /// in use is `busy`.
  [[nodiscard]] static Result<Listener> open(const ProtectionDomain& domain,
                                             std::string_view address, ListenOptions options = {});

  /// The next client that has met us. Clients that hang, vanish, talk something else, are refused
  /// or do not fit are dropped: logged once, told to on_dropped, and no concern of this call.
  /// `timed_out` with field "connection" when none succeeded within `limit`; handshakes that have
  /// begun go on in the next call. Any other error is this process's own (descriptors, the device,
  /// `prepare`), and the listener is as good as before.
  [[nodiscard]] Result<Connection> accept(Timeout limit = std::chrono::seconds{10}) const;
  /// The same without waiting: nothing, if no client is through yet.
  [[nodiscard]] Result<std::optional<Connection>> try_accept() const;
  /// For epoll: readable when try_accept() has something to do, be it only a step of a handshake.
  /// Not to be read.
  [[nodiscard]] int fd() const noexcept;

  /// 0 for unix sockets.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Numeric, with the port that it really has; or "unix:" and the path.
  [[nodiscard]] const std::string& address() const noexcept;

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

 private:
  explicit Listener(std::unique_ptr<detail::Reception> reception) noexcept;
  std::unique_ptr<detail::Reception> reception_;
};

struct DialOptions {
  /// For everything, from looking the name up to the peer's being ready.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  ChannelOptions channel{};
  PrepareChannel prepare{};
  AdmitPeer admit{};                      ///< Whom to talk to: asked once connected.
  std::vector<std::byte> private_data{};  ///< At most kMaxPrivateDataBytes.
  /// Of unix sockets: a listener of another user, but for root, is refused.
  bool same_user_only = true;
};

/// A channel to who accepts at `address`. While nobody listens there, or the listener drops us for
/// others, it tries again, until the deadline.
[[nodiscard]] Result<Connection> dial(const ProtectionDomain& domain, std::string_view address,
                                      const DialOptions& options = {});

}  // namespace verbatim
