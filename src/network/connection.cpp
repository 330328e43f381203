// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

namespace verbatim::detail {
namespace {

constexpr int kReadsAtOnce = 64;  ///< Then the other connections get a turn.
constexpr std::size_t kChunkBytes = std::size_t{16} << 10;

Error socket_error(const char* operation, int os_error) noexcept {
  return {.code = Errc::closed, .os_error = os_error, .operation = operation, .field = "session"};
}

}  // namespace

Connection::Connection(asio::io_context& loop, PrivateDescriptor socket, SecureStream stream,
                       Owner& owner, std::uint64_t id)
    : loop_(loop),
      socket_(std::move(socket)),
      watched_(loop, socket_.get()),
      stream_(std::move(stream)),
      owner_(owner),
      id_(id) {}

Connection::~Connection() { close(); }

void Connection::start() {
  // Runs in the loop, like everything that may call the owner.
  asio::post(loop_, [self = shared_from_this()] {
    self->flush();
    if (!self->hand_out()) return;
    self->await_readable();
  });
}

void Connection::await_readable() {
  if (!is_open()) return;
  watched_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const asio::error_code& failed) {
                        if (failed || !self->is_open()) return;
                        self->look();
                        self->await_readable();
                      });
}

void Connection::look() {
  std::array<std::byte, kChunkBytes> chunk;  // NOLINT(*-member-init): recv() fills it.
  for (int i = 0; i < kReadsAtOnce && is_open() && !failing_; ++i) {
    const std::size_t room = finishing_ ? chunk.size() : std::min(stream_.room(), chunk.size());
    const ssize_t got = recv(socket_.get(), chunk.data(), room, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return fail_later(socket_error("recv", got < 0 ? errno : 0));
    last_heard_ = Clock::now();
    bytes_.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
    if (finishing_) continue;
    stream_.feed(std::span{chunk}.first(static_cast<std::size_t>(got)));
    if (!hand_out()) return;
  }
}

/// Hands out all complete frames. Returns false when the connection is over.
bool Connection::hand_out() {
  while (is_open() && !finishing_ && !failing_) {
    auto frame = stream_.next();
    flush();  // A hello may have become due.
    if (!frame) {
      fail_later(frame.error());
      return false;
    }
    if (!*frame) return true;
    owner_.received(*this, **frame);
  }
  return is_open() && !failing_;
}

void Connection::send(std::span<const std::byte> plaintext) {
  if (!is_open() || finishing_ || failing_) return;
  stream_.send(plaintext);
  flush();
}

void Connection::flush() {
  std::vector<std::byte>& waiting = stream_.outgoing();
  while (is_open() && sent_ < waiting.size()) {
    const ssize_t took = ::send(socket_.get(), waiting.data() + sent_, waiting.size() - sent_,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (took < 0 && errno == EINTR) continue;
    if (took < 0 && errno == EAGAIN) {
      if (sent_ > kChunkBytes) {
        waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(sent_));
        sent_ = 0;
      }
      if (waiting.size() - sent_ > kMaxWaiting)
        return fail_later({.code = Errc::limit_exceeded,
                           .operation = "session",
                           .field = "bytes that the peer does not read",
                           .value = waiting.size() - sent_,
                           .limit = kMaxWaiting});
      return await_writable();
    }
    if (took < 0) {
      // What the peer sent before it went can still be read, and shows the end.
      sent_ = waiting.size();
      break;
    }
    sent_ += static_cast<std::size_t>(took);
    bytes_.fetch_add(static_cast<std::uint64_t>(took), std::memory_order_relaxed);
  }
  waiting.clear();
  sent_ = 0;
  if (waiting.capacity() > 2 * kChunkBytes) std::vector<std::byte>{}.swap(waiting);
  if (finishing_ && is_open()) shutdown(socket_.get(), SHUT_WR);
}

void Connection::await_writable() {
  if (std::exchange(writing_, true)) return;
  watched_.async_wait(asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this()](const asio::error_code& failed) {
                        self->writing_ = false;
                        if (!failed) self->flush();
                      });
}

void Connection::finish() {
  if (!is_open() || std::exchange(finishing_, true)) return;
  flush();
}

void Connection::close() {
  if (!is_open()) return;
  watched_.release();  // Its handlers are called with an error.
  socket_.reset();
}

void Connection::fail_later(const Error& why) {
  if (std::exchange(failing_, true)) return;
  asio::post(loop_, [self = shared_from_this(), why] { self->fail(why); });
}

void Connection::fail(const Error& why) {
  if (!is_open()) return;
  close();
  owner_.ended(*this, why);
}

}  // namespace verbatim::detail
