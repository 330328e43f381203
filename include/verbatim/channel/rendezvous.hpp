// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two processes meet at an address and leave with a channel each.
///
///     auto listener = VERBATIM_TRY(Listener::open(domain, "0.0.0.0:7000"));          // one side
///     auto [channel, client, receives] = VERBATIM_TRY(listener.accept(30s));
///
///     auto channel = VERBATIM_TRY(dial(domain, "storage-7:7000")).channel;           // the other
///
/// One call on each side does everything: it connects (IPv4, IPv6, a name, or "unix:/run/storage"),
/// exchanges endpoints and private data, agrees, connects the queue pairs, and waits until the peer
/// has done the same. When it returns, either side may send. The connection stays open only for
/// close(): see Channel::close().
///
/// Nothing waits for ever, no signal is raised, and nothing that a peer sends is trusted. Each
/// failure is one error: `timed_out` (nobody is there, or too slow: the field names what was
/// awaited), `closed` (the peer went away), `malformed` (it speaks something else, or another
/// version), `incompatible` (the two devices cannot talk), `permission_denied` (refused by the peer
/// or by `admit`), `not_found` (the host), or the error from preparing the channel.
///
/// Anyone who can reach the port can connect, unless `admit` refuses (admission.hpp). RDMA data
/// itself is neither encrypted nor authenticated. Listen on the address of a network that you
/// trust.
///
/// Ownership: a Listener is move-only and keeps its domain alive; the channels are independent.
/// Threads:   several threads may call accept() and try_accept() at once; any thread may call
/// dial(). Fork:      a Listener belongs to the process that opened it; in a child it is `forked`.
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

/// The result of a meeting.
struct Connection {
  Channel channel;
  Peer peer;                                ///< Includes the private data that it gave.
  std::vector<Pending<Buffer>> receives{};  ///< What `prepare` returned.
};

/// The result of `prepare`.
struct Preparation {
  std::vector<Pending<Buffer>> receives{};  ///< Moved to Connection::receives.
  /// For this peer, instead of the options' private_data.
  std::optional<std::vector<std::byte>> private_data{};
};

/// Called before the peer can send, so that its first messages find receives. On a listener the
/// peer's private data is already known. An error ends the meeting with that error; an exception
/// counts as `permission_denied`. The rules for threads are those of `admit`.
using PrepareChannel =
    std::function<Result<Preparation>(PreparedChannel& prepared, const Peer& peer)>;

struct ListenOptions {
  ChannelOptions channel{};
  PrepareChannel prepare{};
  AdmitPeer admit{};
  std::vector<std::byte> private_data{};  ///< For every client; at most kMaxPrivateDataBytes.
  /// Unix sockets only: refuse clients of other users, except root.
  bool same_user_only = true;
  /// For a client that has connected; other handshakes continue meanwhile.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds{5};
  /// Handshakes that run side by side, each with a descriptor. One more client displaces the
  /// oldest.
  std::uint32_t max_handshakes = 256;
  int backlog = 1024;  ///< Clients that may wait in the kernel, which has its own limit.
  /// Called for each client that gets no channel, with the reason, after it was logged.
  std::function<void(const Peer& peer, const Error& why)> on_dropped{};
};

class Listener {
 public:
  /// `address` is "host:port"; "[::1]:7000" for IPv6, ":7000" for all addresses of this machine,
  /// port 0 for any free port. "unix:/path" creates a socket file and removes it at the end; only
  /// the process's own user may use it, unless the options say otherwise. "unix:@name" needs no
  /// file. An address in use is `busy`.
  [[nodiscard]] static Result<Listener> open(const ProtectionDomain& domain,
                                             std::string_view address, ListenOptions options = {});

  /// The next client that has completed its handshake. Clients that hang, vanish, speak something
  /// else, are refused or do not fit are dropped: each is logged once and passed to on_dropped, and
  /// does not affect this call. `timed_out` with field "connection" if none succeeded within
  /// `limit`; the next call continues handshakes that have begun. Any other error is this process's
  /// own (descriptors, the device, `prepare`), and the listener keeps working.
  [[nodiscard]] Result<Connection> accept(Timeout limit = std::chrono::seconds{10}) const;
  /// The same without waiting: empty if no client is ready yet.
  [[nodiscard]] Result<std::optional<Connection>> try_accept() const;
  /// For epoll: readable when try_accept() has something to do, even if only a step of a handshake.
  /// Do not read it.
  [[nodiscard]] int fd() const noexcept;

  /// 0 for unix sockets.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// Numeric, with the actual port; or "unix:" and the path.
  [[nodiscard]] const std::string& address() const noexcept;

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

 private:
  explicit Listener(std::unique_ptr<detail::Reception> reception) noexcept;
  std::unique_ptr<detail::Reception> reception_;
};

struct DialOptions {
  /// For everything, from the name lookup until the peer is ready.
  std::chrono::nanoseconds deadline = std::chrono::seconds{5};
  ChannelOptions channel{};
  PrepareChannel prepare{};
  AdmitPeer admit{};                      ///< Whom to talk to: called once connected.
  std::vector<std::byte> private_data{};  ///< At most kMaxPrivateDataBytes.
  /// Unix sockets only: refuse a listener of another user, except root.
  bool same_user_only = true;
};

/// A channel to the listener at `address`. While nobody listens there, or the listener drops this
/// client for others, it retries until the deadline.
[[nodiscard]] Result<Connection> dial(const ProtectionDomain& domain, std::string_view address,
                                      const DialOptions& options = {});

}  // namespace verbatim
