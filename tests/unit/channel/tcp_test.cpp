// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: connections are made, refused and waited for within their time, and signals do no harm.
// Method: sockets of this process on the loopback interface.
#include "channel/tcp.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>
#include <thread>
#include <vector>

#include "support/bounded_call.hpp"
#include "support/require.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::vector<detail::SocketAddress> loopback(std::uint16_t port) {
  return require(detail::resolve_local({.host = "127.0.0.1", .port = port}, call()));
}

detail::PrivateDescriptor listener() {
  return require(detail::listen_on_any(loopback(0), 4, call()));
}
std::uint16_t port_of(const detail::PrivateDescriptor& fd) {
  return require(detail::local_address(fd.get(), "test")).port();
}
/// The port of a listener that is gone; probably nobody has taken it since.
std::uint16_t free_port() { return port_of(listener()); }

TEST(Tcp, ConnectsAndAccepts) {
  const auto server = listener();
  const auto client = require(detail::connect_to_any(loopback(port_of(server)), call()));
  // A client of this host that has connected is there at once.
  const auto accepted = *require(detail::try_accept(server.get(), "test"));
  for (const int fd : {client.get(), accepted.get(), server.get()}) {
    EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
}

TEST(Tcp, TriesTheNextAddressAfterOneThatRefuses) {
  const auto server = listener();
  std::vector<detail::SocketAddress> both = loopback(free_port());
  both.push_back(loopback(port_of(server))[0]);
  EXPECT_TRUE(succeeds(detail::connect_to_any(both, call())));
}

TEST(Tcp, RefusedUntilTheDeadlineIsTimedOutAndSaysSo) {
  const auto start = Clock::now();
  const auto refused = detail::connect_to_any(loopback(free_port()), call(50ms));
  ASSERT_TRUE(fails_with(refused, Errc::timed_out));
  EXPECT_EQ(refused.error().os_error, ECONNREFUSED);
  EXPECT_GE(Clock::now() - start, 50ms);
}

TEST(Tcp, KeepsTryingUntilSomebodyListens) {
  const std::uint16_t port = free_port();
  auto dialing = std::async(std::launch::async,
                            [&] { return detail::connect_to_any(loopback(port), call()); });
  // Long enough for the first attempts to be refused.
  ASSERT_EQ(dialing.wait_for(30ms), std::future_status::timeout);
  const auto late = require(detail::listen_on_any(loopback(port), 4, call()));
  EXPECT_TRUE(succeeds(dialing.get()));
}

TEST(Tcp, AcceptWithoutClientIsEmpty) {
  const auto server = listener();
  EXPECT_FALSE(require(detail::try_accept(server.get(), "test")).has_value());
  EXPECT_TRUE(fails_with(detail::try_accept(-1, "test"), Errc::driver));
}

TEST(Tcp, AddressInUseIsBusy) {
  const auto server = listener();
  const auto second = detail::listen_on_any(loopback(port_of(server)), 4, call());
  ASSERT_TRUE(fails_with(second, Errc::busy));
  EXPECT_STREQ(second.error().field, "bind");
}

TEST(Tcp, DoesNotTalkToItself) {
  // A socket that is bound to the port that it dials connects to itself if nobody listens there.
  const auto address = loopback(free_port());
  detail::PrivateDescriptor self{socket(AF_INET, SOCK_STREAM, 0)};
  ASSERT_EQ(bind(self.get(), address[0].get(), address[0].size), 0);
  ASSERT_EQ(connect(self.get(), address[0].get(), address[0].size), 0) << "not on this kernel";
  EXPECT_TRUE(detail::is_connected_to_itself(self.get()));
  const auto server = listener();
  const auto client = require(detail::connect_to_any(loopback(port_of(server)), call()));
  EXPECT_FALSE(detail::is_connected_to_itself(client.get()));
}

TEST(Tcp, SignalsNeitherEndNorProlongAWait) {
  struct sigaction quiet{};
  quiet.sa_handler = [](int) {};  // Without SA_RESTART: system calls return EINTR.
  struct sigaction before{};
  ASSERT_EQ(sigaction(SIGUSR1, &quiet, &before), 0);
  const auto server = listener();
  const auto start = Clock::now();
  const pthread_t waiter = pthread_self();
  std::atomic<bool> over{false};
  std::thread signaller([&] {
    while (!over.load()) {
      pthread_kill(waiter, SIGUSR1);
      std::this_thread::yield();
    }
  });
  EXPECT_FALSE(detail::wait_until_ready(server.get(), POLLIN, start + 50ms));
  const auto waited = Clock::now() - start;
  over.store(true);
  signaller.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GE(waited, 50ms);
  EXPECT_LT(waited, 20s);
}

}  // namespace
}  // namespace verbatim::test
