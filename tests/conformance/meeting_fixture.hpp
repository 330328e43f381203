// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Meetings on this host: both ends in one process, and clients that the test itself plays.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "verbatim/channel/rendezvous.hpp"

namespace verbatim::test {

/// The reasons why clients got no channel, in order. For any thread.
class Dropped {
 public:
  /// For ListenOptions::on_dropped.
  [[nodiscard]] auto note() {
    return [this](const Peer& peer, const Error& why) {
      const std::lock_guard lock{mutex_};
      peers_.push_back(peer);
      causes_.push_back(why);
    };
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock{mutex_};
    return causes_.size();
  }
  /// How many of them have this code.
  [[nodiscard]] std::size_t count(Errc code) const {
    const std::lock_guard lock{mutex_};
    return static_cast<std::size_t>(std::ranges::count(causes_, code, &Error::code));
  }
  [[nodiscard]] Error cause(std::size_t index) const {
    const std::lock_guard lock{mutex_};
    return causes_.at(index);
  }
  [[nodiscard]] Peer peer(std::size_t index) const {
    const std::lock_guard lock{mutex_};
    return peers_.at(index);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<Error> causes_;
};

/// A client that does not use the library.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      give_up("connect", std::source_location::current());
  }
  Stranger(Stranger&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Stranger& operator=(Stranger&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Stranger() { hang_up(); }

  void say(std::span<const std::byte> bytes) const {
    // The listener may already have hung up, as it may do.
    static_cast<void>(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void say(std::string_view text) const { say(std::as_bytes(std::span{text})); }
  void hang_up() {
    if (const int fd = std::exchange(fd_, -1); fd >= 0) ::close(fd);
  }
  /// Everything that the listener sends until it hangs up, within the test's patience.
  [[nodiscard]] std::string hear_all() const {
    std::string heard;
    char bytes[256];
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    for (ssize_t got = 0; (got = recv(fd_, bytes, sizeof bytes, 0)) > 0;)
      heard.append(bytes, static_cast<std::size_t>(got));
    return heard;
  }

 private:
  int fd_;
};

/// The greeting of the second version of the handshake, as bytes.
inline constexpr std::string_view kGreeting{"VBF1\x01\0\x09\0VBEP\x02\0\x09\0\0", 17};

/// `text` as private data.
[[nodiscard]] inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

class MeetingTest : public testing::Test {
 protected:
  [[nodiscard]] Buffer filled(std::size_t bytes, std::uint64_t with) {
    Buffer buffer = require(domain.allocate(bytes));
    fill(buffer.bytes(), with);
    return buffer;
  }
  [[nodiscard]] Buffer empty(std::size_t bytes) { return require(domain.allocate(bytes)); }

  /// The test's patience is its deadline, because the listener may be served late.
  [[nodiscard]] std::future<Result<Connection>> dialling(const Listener& listener,
                                                         DialOptions options = {}) {
    options.deadline = kPatience;
    return std::async(std::launch::async, [this, &listener, options = std::move(options)] {
      return dial(domain, listener.address(), options);
    });
  }
  /// Both ends of a meeting: {the listener's, the dialler's}.
  [[nodiscard]] std::pair<Connection, Connection> meet_at(const Listener& listener,
                                                          const DialOptions& dialled = {}) {
    auto other = dialling(listener, dialled);
    auto accepted = listener.accept(kPatience);
    auto dialled_one = other.get();
    return {require(std::move(accepted)), require(std::move(dialled_one))};
  }
  [[nodiscard]] std::pair<Channel, Channel> meet(const ListenOptions& listen = {},
                                                 const DialOptions& dialled = {}) {
    const auto listener = require(Listener::open(domain, "127.0.0.1:0", listen));
    auto [here, there] = meet_at(listener, dialled);
    return {std::move(here.channel), std::move(there.channel)};
  }
  /// Serves the listener until `done`, which must happen within the test's patience. No client gets
  /// a channel meanwhile.
  template <class Done>
  void serve_until(const Listener& listener, Done done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      const auto nobody = listener.try_accept();
      ASSERT_TRUE(succeeds(nobody));
      ASSERT_FALSE(nobody->has_value());
      pollfd entry{.fd = listener.fd(), .events = POLLIN, .revents = 0};
      // With a bound, because `done` may depend on something other than the listener.
      poll(&entry, 1, 10);
    }
  }
  void exchange(Channel& from, Channel& to) {
    auto receiving = to.receive(empty(64));
    EXPECT_TRUE(succeeds(from.send(filled(64, seed)).wait().result));
    auto [received, result] = receiving.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(received.bytes(), seed));
  }
  void expect_good_client(const Listener& listener) {
    auto [here, there] = meet_at(listener);
    exchange(there.channel, here.channel);
  }

  std::uint64_t seed = test_seed();
  ProtectionDomain domain = require(open_context().allocate_domain());
};

}  // namespace verbatim::test
