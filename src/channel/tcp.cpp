// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/tcp.hpp"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/timespec.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

Error failure(const char* operation, const char* field, int os_error) noexcept {
  Error error = os_failure(operation, os_error);
  error.field = field;
  return error;
}

PrivateDescriptor new_socket(int family) noexcept {
  return PrivateDescriptor::opened_by(
      [&] { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

/// The records are small, and the peer waits for each of them.
void send_at_once(int fd) noexcept {
  const int on = 1;
  static_cast<void>(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

/// Whether a listener may still appear there, or find room for us.
bool may_come(int os_error) noexcept {
  // ENOENT: the path does not exist yet. EAGAIN: the queue of a unix socket is full.
  return os_error == ECONNREFUSED || os_error == ENOENT || os_error == EAGAIN;
}

using NameOf = int(int fd, sockaddr* address, socklen_t* size);

Result<SocketAddress> address_of(NameOf* name, int fd, const char* operation) noexcept {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (name(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return std::unexpected(os_failure(operation, errno));
  return address;
}

}  // namespace

bool wait_until_ready(int fd, short events, Clock::time_point deadline) noexcept {
  for (;;) {
    const auto left = std::max<Clock::duration>(deadline - Clock::now(), Clock::duration::zero());
    const timespec time = to_timespec(left);
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = ppoll(&entry, 1, &time, nullptr);
    // A socket error counts as ready. The next call on the socket reports it.
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (Clock::now() >= deadline) return false;
  }
}

void sleep_until(Clock::time_point when) noexcept {
  static_cast<void>(wait_until_ready(-1, 0, when));  // ppoll() ignores negative descriptors.
}

/// Starts an attempt at the next address. Returns 0, EINPROGRESS, or the errno.
int Connecting::begin() noexcept {
  const SocketAddress& address = addresses_[next_];
  socket_ = new_socket(address.family());
  if (!socket_) return errno;
  // An address that drops packets must leave time for the other addresses.
  const auto now = Clock::now();
  due_ = now + (call_.deadline - now) / static_cast<Clock::rep>(addresses_.size() - next_);
  if (connect(socket_.get(), address.get(), address.size) == 0) return 0;
  return errno == EINTR ? EINPROGRESS : errno;  // After a signal, the attempt continues.
}

/// Returns the state of the attempt.
int Connecting::finish() noexcept {
  if (!wait_until_ready(socket_.get(), POLLOUT, Clock::time_point{}))
    return Clock::now() < due_ ? EINPROGRESS : ETIMEDOUT;
  int failed = 0;
  socklen_t size = sizeof failed;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) return errno;
  return failed;
}

Result<bool> Connecting::step() {
  for (;;) {
    if (next_ == addresses_.size()) {
      if (Clock::now() < due_) return false;
      next_ = 0;
    }
    int failed = socket_ ? finish() : begin();
    if (failed == EINPROGRESS) return false;
    if (failed == 0 && is_connected_to_itself(socket_.get())) failed = ECONNREFUSED;
    if (failed == 0) {
      send_at_once(socket_.get());
      return true;
    }
    socket_.reset();
    last_ = failed;
    if (may_come(failed)) {
      refused_ = failed;
      may_come_ = true;
    }
    if (++next_ < addresses_.size()) continue;
    const auto now = Clock::now();
    if (now >= call_.deadline) {
      // Nobody waits for the answer to the last attempt, so an earlier one may know more.
      Error late = failure(call_.operation, "connect", refused_ != 0 ? refused_ : last_);
      late.code = Errc::timed_out;
      return std::unexpected(late);
    }
    if (!std::exchange(may_come_, false))
      return std::unexpected(failure(call_.operation, "connect", last_));
    due_ = std::min(call_.deadline, now + pause_);
    pause_ = std::min<Clock::duration>(2 * pause_, 200ms);
  }
}

Result<PrivateDescriptor> connect_to_any(std::span<const SocketAddress> addresses,
                                         const BoundedCall& call) {
  Connecting connecting{{addresses.begin(), addresses.end()}, call};
  while (!VERBATIM_TRY(connecting.step()))
    static_cast<void>(wait_until_ready(connecting.fd(), POLLOUT, connecting.due()));
  return connecting.take();
}

Result<PrivateDescriptor> listen_on_any(std::span<const SocketAddress> addresses, int backlog,
                                        const BoundedCall& call) {
  Error last{};
  for (const SocketAddress& address : addresses) {
    PrivateDescriptor fd = new_socket(address.family());
    const int on = 1;
    if (!fd)
      last = failure(call.operation, "socket", errno);
    else if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
      last = failure(call.operation, "SO_REUSEADDR", errno);
    else if (bind(fd.get(), address.get(), address.size) != 0)
      last = failure(call.operation, "bind", errno);
    else if (listen(fd.get(), backlog) != 0)
      last = failure(call.operation, "listen", errno);
    else
      return fd;
  }
  if (last.os_error == EADDRINUSE) last.code = Errc::busy;
  if (last.os_error == EADDRNOTAVAIL) last.code = Errc::not_found;
  return std::unexpected(last);
}

Result<std::optional<PrivateDescriptor>> try_accept(int listener, const char* operation) noexcept {
  auto fd = PrivateDescriptor::opened_by(
      [&] { return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
  if (fd) {
    send_at_once(fd.get());
    return std::optional{std::move(fd)};
  }
  switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EBADF:
    case EINVAL:
    case ENOTSOCK: return std::unexpected(failure(operation, "connection", errno));
    default: return std::nullopt;  // No client, or one that is gone already.
  }
}

bool is_connected_to_itself(int fd) noexcept {
  const auto local = local_address(fd, "");
  const auto peer = peer_address(fd, "");
  return local && peer && local->size == peer->size && local->family() != AF_UNIX &&
         std::memcmp(&local->storage, &peer->storage, local->size) == 0;
}

Result<SocketAddress> local_address(int fd, const char* operation) noexcept {
  return address_of([](int of, sockaddr* at, socklen_t* size) { return getsockname(of, at, size); },
                    fd, operation);
}
Result<SocketAddress> peer_address(int fd, const char* operation) noexcept {
  return address_of([](int of, sockaddr* at, socklen_t* size) { return getpeername(of, at, size); },
                    fd, operation);
}

}  // namespace verbatim::detail
