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

/// A port at which nobody listens. It stays bound, so that the system gives it to nobody else; a
/// listener that asks for it gets it.
class QuietPort {
 public:
  QuietPort() {
    const int on = 1;
    const auto any = loopback(0);
    if (setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(socket_.get(), any[0].get(), any[0].size) != 0)
      throw SetupFailed("bind");
  }
  [[nodiscard]] std::uint16_t number() const { return port_of(socket_); }

 private:
  detail::PrivateDescriptor socket_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

TEST(Tcp, ConnectsAndAccepts) {
  const auto server = listener();
  const auto client = require(detail::connect_to_any(loopback(port_of(server)), call()));
  // A client that is connected may still be on its way to the listener.
  ASSERT_TRUE(detail::wait_until_ready(server.get(), POLLIN, call().deadline));
  const auto accepted = *require(detail::try_accept(server.get(), "test"));
  for (const int fd : {client.get(), accepted.get(), server.get()}) {
    EXPECT_TRUE(fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
}

TEST(Tcp, TriesTheNextAddressAfterOneThatRefuses) {
  const auto server = listener();
  const QuietPort quiet;
  std::vector<detail::SocketAddress> both = loopback(quiet.number());
  both.push_back(loopback(port_of(server))[0]);
  EXPECT_TRUE(succeeds(detail::connect_to_any(both, call())));
}

TEST(Tcp, RefusedUntilTheDeadlineIsTimedOutAndSaysSo) {
  const QuietPort quiet;
  const auto start = Clock::now();
  const auto refused = detail::connect_to_any(loopback(quiet.number()), call(50ms));
  ASSERT_TRUE(fails_with(refused, Errc::timed_out));
  EXPECT_EQ(refused.error().os_error, ECONNREFUSED);
  EXPECT_GE(Clock::now() - start, 50ms);
}

TEST(Tcp, RefusalIsReportedAlthoughTheLastAttemptHadNoAnswer) {
  const QuietPort quiet;
  detail::Connecting connecting{loopback(quiet.number()), call(50ms)};
  Result<bool> connected = connecting.step();
  ASSERT_TRUE(succeeds(connected)) << "it was refused, and pauses";
  // From here on the host drops attempts: the listener's queue has room for one.
  const auto full = require(detail::listen_on_any(loopback(quiet.number()), 0, call()));
  const auto first = require(detail::connect_to_any(loopback(quiet.number()), call()));
  ASSERT_TRUE(detail::wait_until_ready(full.get(), POLLIN, call().deadline));
  for (; connected && !*connected; connected = connecting.step())
    static_cast<void>(detail::wait_until_ready(connecting.fd(), POLLOUT, connecting.due()));
  ASSERT_TRUE(fails_with(connected, Errc::timed_out));
  EXPECT_EQ(connected.error().os_error, ECONNREFUSED);
}

TEST(Tcp, KeepsTryingUntilSomebodyListens) {
  const QuietPort quiet;
  const std::uint16_t port = quiet.number();
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
  const auto any = loopback(0);
  detail::PrivateDescriptor self{socket(AF_INET, SOCK_STREAM, 0)};
  ASSERT_EQ(bind(self.get(), any[0].get(), any[0].size), 0);
  const auto own = require(detail::local_address(self.get(), "test"));
  ASSERT_EQ(connect(self.get(), own.get(), own.size), 0) << "not on this kernel";
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
