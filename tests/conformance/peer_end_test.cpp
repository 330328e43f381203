// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a wait for a peer that is gone learns that, and how it went; what had already arrived comes
//       first.
// Method: channels of Listener and dial; the peer closes, goes away, or is a process that is
//         killed.
// Covers: channel/peer_end.cpp
#include <gtest/gtest.h>
#include <poll.h>

#include <future>

#include "conformance/child_process.hpp"
#include "conformance/meeting_fixture.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class PeerEnd : public MeetingTest {
 protected:
  /// A channel to a process that has dialled and sent its one message.
  [[nodiscard]] std::pair<Child, Channel> visited(const std::string& manner,
                                                  const ListenOptions& options = {}) {
    const auto listener = require(Listener::open(domain, "127.0.0.1:0", options));
    Child child = start_child({"visitor", listener.address(), manner});
    Channel channel = require(listener.accept(kPatience)).channel;
    static_cast<void>(require(channel.receive(empty(1)).wait(kPatience).result));
    return {std::move(child), std::move(channel)};
  }
  /// As an event loop sees it: fd() is readable until poll() reports the end.
  static void expect_end(Channel& channel, Errc expected) {
    const int fd = require(channel.fd());
    const auto end = Clock::now() + kPatience;
    Result<std::size_t> polled{};
    while (polled && Clock::now() < end) {
      pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&entry, 1, static_cast<int>(std::chrono::milliseconds{kPatience}.count())), 1);
      polled = channel.poll();
    }
    EXPECT_TRUE(fails_with(polled, expected));
  }
};

TEST_F(PeerEnd, KilledProcessEndsAWaitWithNothingElseInFlight) {
  auto [child, channel] = visited("stay");
  auto receiving = channel.receive(empty(64));
  child.kill();
  const auto start = Clock::now();
  EXPECT_TRUE(fails_with(receiving.wait(kForever).result, Errc::peer_lost));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
  EXPECT_EQ(channel.cause()->code, Errc::peer_lost);
}

TEST_F(PeerEnd, KilledProcessEndsAWaitThatSpins) {
  auto [child, channel] = visited("stay", {.channel = {.wait = {.sleep = false}}});
  auto receiving = channel.receive(empty(64));
  child.kill();
  EXPECT_TRUE(fails_with(receiving.wait(kForever).result, Errc::peer_lost));
}

TEST_F(PeerEnd, ChildOfTheKilledProcessDoesNotHideItsEnd) {
  auto [child, channel] = visited("fork");
  auto receiving = channel.receive(empty(64));
  child.kill();
  EXPECT_TRUE(fails_with(receiving.wait(kForever).result, Errc::peer_lost));
}

TEST_F(PeerEnd, SendToAKilledProcessIsPeerLost) {
  auto [child, channel] = visited("stay");
  child.kill();
  EXPECT_TRUE(fails_with(channel.send(filled(64, seed)).wait(kForever).result, Errc::peer_lost));
}

TEST_F(PeerEnd, KilledProcessIsSeenByReady) {
  auto [child, channel] = visited("stay");
  auto receiving = channel.receive(empty(64));
  EXPECT_FALSE(receiving.ready());
  child.kill();
  const auto end = Clock::now() + kPatience;
  while (!receiving.ready() && Clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::peer_lost));
}

TEST_F(PeerEnd, KilledProcessMakesFdReadable) {
  auto [child, channel] = visited("stay");
  auto receiving = channel.receive(empty(64));
  static_cast<void>(require(channel.fd()));
  EXPECT_EQ(require(channel.poll()), 0u);
  child.kill();
  expect_end(channel, Errc::peer_lost);
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::peer_lost));
}

TEST_F(PeerEnd, PeerThatClosesWhileWeWaitIsPeerClosed) {
  auto [here, there] = meet();
  auto receiving = here.receive(empty(64));
  auto closing = std::async(std::launch::async, [&] { return there.close(kPatience); });
  EXPECT_TRUE(fails_with(receiving.wait(kForever).result, Errc::peer_closed));
  EXPECT_EQ(here.cause()->code, Errc::peer_closed);
  EXPECT_TRUE(succeeds(here.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get())) << "it waits for our word";
}

TEST_F(PeerEnd, PeerThatClosesMakesFdReadable) {
  auto [here, there] = meet();
  auto receiving = here.receive(empty(64));
  static_cast<void>(require(here.fd()));
  EXPECT_EQ(require(here.poll()), 0u);
  auto closing = std::async(std::launch::async, [&] { return there.close(kPatience); });
  expect_end(here, Errc::peer_closed);
  EXPECT_TRUE(succeeds(here.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
}

TEST_F(PeerEnd, WhatHadArrivedWins) {
  auto [here, there] = meet();
  constexpr std::uint64_t kCount = 8;
  std::vector<Pending<Buffer>> receiving;
  for (std::uint64_t i = 0; i <= kCount; ++i) receiving.push_back(here.receive(empty(64)));
  for (std::uint64_t i = 0; i < kCount; ++i)
    ASSERT_TRUE(succeeds(there.send(filled(64, seed + i)).wait().result));
  auto closing = std::async(std::launch::async, [&] { return there.close(kPatience); });
  // From the last one on: the messages are in the queue when the end of the peer is seen.
  EXPECT_TRUE(fails_with(receiving[kCount].wait(kForever).result, Errc::peer_closed));
  for (std::uint64_t i = 0; i < kCount; ++i) {
    auto [received, result] = receiving[i].wait();
    ASSERT_TRUE(succeeds(result)) << i;
    EXPECT_TRUE(holds(received.bytes(), seed + i));
  }
  EXPECT_TRUE(succeeds(here.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
}

TEST_F(PeerEnd, CloseTwiceIsClose) {
  auto [here, there] = meet();
  auto closing = std::async(std::launch::async, [&] { return there.close(kPatience); });
  EXPECT_TRUE(succeeds(here.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
  EXPECT_TRUE(succeeds(here.close(kPatience)));
  EXPECT_EQ(here.cause()->code, Errc::closed);
}

}  // namespace
}  // namespace verbatim::test
