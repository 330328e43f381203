// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A session's socket in an event loop: frames in, frames out, and one notification of its
/// end.
///
/// Nothing waits for the peer. What it does not read is kept, up to a bound; beyond that the
/// connection has failed. All calls come from the loop's thread.
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "channel/private_descriptor.hpp"
#include "network/secure_stream.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;
  /// Two of the largest frames, and everything small.
  static constexpr std::size_t kMaxWaiting = 3 * kMaxFrameCiphertext;

  class Owner {
   public:
    /// May close the connection.
    virtual void received(Connection& connection, std::span<const std::byte> plaintext) = 0;
    /// It is already closed. `closed` if the peer closed it, `limit_exceeded` if it reads too
    /// slowly, or the error of SecureStream. Called from the loop, never from within another call.
    virtual void ended(Connection& connection, const Error& why) = 0;

   protected:
    ~Owner() = default;
  };

  Connection(asio::io_context& loop, PrivateDescriptor socket, SecureStream stream, Owner& owner,
             std::uint64_t id = 0);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Begins to read, with what the stream already has.
  void start();
  void send(std::span<const std::byte> plaintext);
  /// Reads what has come, now.
  void look();
  /// Sends what is queued, then ends; discards what still comes. The owner is notified of the end.
  void finish();
  /// At once, without notifying the owner.
  void close();

  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(socket_); }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] SecureStream& stream() noexcept { return stream_; }
  [[nodiscard]] Clock::time_point last_heard() const noexcept { return last_heard_; }
  /// Moves the time of the last input forward: for a time in which nobody looked.
  void excuse(Clock::duration time) noexcept { last_heard_ += time; }
  /// Both ways. Any thread.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return bytes_.load(std::memory_order_relaxed);
  }

 private:
  void await_readable();
  void await_writable();
  void flush();
  [[nodiscard]] bool hand_out();
  void fail_later(const Error& why);
  void fail(const Error& why);

  asio::io_context& loop_;
  PrivateDescriptor socket_;
  asio::posix::stream_descriptor watched_;
  SecureStream stream_;
  Owner& owner_;
  std::uint64_t id_;
  std::size_t sent_ = 0;  ///< How many of the stream's outgoing bytes.
  bool writing_ = false;
  bool finishing_ = false;
  bool failing_ = false;
  Clock::time_point last_heard_ = Clock::now();
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace verbatim::detail
