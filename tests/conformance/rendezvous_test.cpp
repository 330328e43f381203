// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two sides that know only an address end up with channels that work; a side that closes
//       early does not break the other.
// Method: two threads, and two processes, over TCP and unix sockets on this host.
// Covers: channel/handshake.cpp, channel/leave.cpp, channel/rendezvous.cpp
#include "verbatim/channel/rendezvous.hpp"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "conformance/child_process.hpp"
#include "conformance/meeting_fixture.hpp"
#include "conformance/rendezvous_peer.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class RendezvousTest : public MeetingTest {};

TEST_F(RendezvousTest, GivesTwoChannelsThatTalkBothWays) {
  auto [left, right] = meet();
  for (int i = 0; i < 20; ++i) {
    exchange(left, right);
    exchange(right, left);
  }
}

TEST_F(RendezvousTest, ListenerServesOneClientAfterTheOther) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  EXPECT_NE(listener.port(), 0);
  EXPECT_EQ(listener.address(), "127.0.0.1:" + std::to_string(listener.port()));
  for (int i = 0; i < 3; ++i) {
    expect_good_client(listener);
  }
}

TEST_F(RendezvousTest, SeveralThreadsMayAcceptAtOnce) {
  constexpr std::size_t kCount = 4;
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  std::vector<std::future<Result<void>>> sides;
  const auto start = [&](auto side) {
    sides.push_back(std::async(std::launch::async, [side]() -> Result<void> {
      auto met = side();
      if (!met) return std::unexpected(met.error());
      return met->channel.close(kPatience);  // Each waits for its own peer.
    }));
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    start([&] { return listener.accept(kPatience); });
    start([&] { return dial(domain, listener.address(), {.deadline = kPatience}); });
  }
  for (auto& each : sides) EXPECT_TRUE(succeeds(each.get()));
}

TEST_F(RendezvousTest, WorksByNameAndOverIpv6) {
  for (const std::string host : {"localhost", "[::1]"}) {
    const auto listener = Listener::open(domain, host + ":0");
    if (!listener && host == "[::1]") GTEST_SKIP() << "no IPv6 here";
    ASSERT_TRUE(succeeds(listener));
    auto dialing = std::async(std::launch::async, [&] {
      return dial(domain, host + ":" + std::to_string(listener->port()));
    });
    Channel here = require(listener->accept(kPatience)).channel;
    Channel there = require(dialing.get()).channel;
    exchange(there, here);
  }
}

TEST_F(RendezvousTest, PreparedReceivesAreThereForTheFirstMessage) {
  ListenOptions options;
  // No retry if the peer has no receive, so only a receive that was posted before helps.
  options.channel.max_rnr_retries = require(MaxRnrRetries::limited(0));
  const DialOptions dialled{.channel = options.channel};
  options.prepare = [&](PreparedChannel& prepared, const Peer&) -> Result<Preparation> {
    Preparation posted;
    posted.receives.push_back(prepared.receive(empty(64)));
    return posted;
  };
  const auto listener = require(Listener::open(domain, "127.0.0.1:0", options));
  auto [here, there] = meet_at(listener, dialled);
  EXPECT_TRUE(succeeds(there.channel.send(filled(64, seed)).wait().result));
  ASSERT_EQ(here.receives.size(), 1u);
  auto [received, result] = here.receives[0].wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
}

TEST_F(RendezvousTest, TellsThePeersAddressAndItsPrivateData) {
  const std::vector<std::byte> most(kMaxPrivateDataBytes, std::byte{7});
  const auto listener = require(Listener::open(domain, "127.0.0.1:0", {.private_data = most}));
  auto [here, there] = meet_at(listener, {.private_data = bytes_of("client 4")});
  EXPECT_EQ(there.peer.address, listener.address());
  EXPECT_TRUE(here.peer.address.starts_with("127.0.0.1:")) << here.peer.address;
  EXPECT_NE(here.peer.address, listener.address());
  EXPECT_EQ(there.peer.private_data, most);
  EXPECT_EQ(here.peer.private_data, bytes_of("client 4"));
  EXPECT_FALSE(here.peer.user);
  exchange(there.channel, here.channel);
}

TEST_F(RendezvousTest, PrepareAnswersEachClientWithDataOfItsOwn) {
  ListenOptions options{.private_data = bytes_of("for all")};
  options.prepare = [](PreparedChannel&, const Peer& peer) -> Result<Preparation> {
    if (peer.private_data.empty()) return {};
    Preparation mine;
    mine.private_data = peer.private_data;
    mine.private_data->push_back(std::byte{'!'});
    return mine;
  };
  const auto listener = require(Listener::open(domain, "127.0.0.1:0", options));
  EXPECT_EQ(meet_at(listener, {.private_data = bytes_of("me")}).second.peer.private_data,
            bytes_of("me!"));
  EXPECT_EQ(meet_at(listener).second.peer.private_data, bytes_of("for all"));
}

TEST_F(RendezvousTest, TooMuchPrivateDataIsOneErrorWithBothNumbers) {
  const std::vector<std::byte> long_data(kMaxPrivateDataBytes + 1);
  const auto expect_limit = [](const auto& result) {
    ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
    EXPECT_STREQ(result.error().field, "bytes of private data");
    EXPECT_EQ(result.error().value, kMaxPrivateDataBytes + 1);
    EXPECT_EQ(result.error().limit, kMaxPrivateDataBytes);
  };
  expect_limit(Listener::open(domain, "127.0.0.1:0", {.private_data = long_data}));
  expect_limit(dial(domain, "127.0.0.1:1", {.private_data = long_data}));
  ListenOptions options;
  options.prepare = [&](PreparedChannel&, const Peer&) -> Result<Preparation> {
    return Preparation{.private_data = long_data};
  };
  const auto listener = require(Listener::open(domain, "127.0.0.1:0", options));
  auto other = dialling(listener);
  expect_limit(listener.accept(kPatience));
  EXPECT_TRUE(fails_with(other.get(), Errc::closed));
}

TEST_F(RendezvousTest, PrepareMayRefuse) {
  std::optional<Pending<Buffer>> receiving;
  Dropped dropped;
  const auto listener =
      require(Listener::open(domain, "127.0.0.1:0", {.on_dropped = dropped.note()}));
  DialOptions options{
      .prepare = [&](PreparedChannel& prepared, const Peer& peer) -> Result<Preparation> {
        EXPECT_EQ(peer.address, listener.address());
        receiving.emplace(prepared.receive(empty(64)));
        return std::unexpected(Error{.code = Errc::permission_denied, .operation = "mine"});
      }};
  auto dialled = dialling(listener, options);
  serve_until(listener, [&] { return dropped.count() > 0; });
  const auto refused = dialled.get();
  ASSERT_TRUE(fails_with(refused, Errc::permission_denied));
  EXPECT_STREQ(refused.error().operation, "mine");
  auto [buffer, result] = receiving->wait();
  EXPECT_TRUE(buffer);
  EXPECT_TRUE(fails_with(result, Errc::closed));
  // The listener got the refusal.
  EXPECT_EQ(dropped.cause(0), Errc::permission_denied);
  EXPECT_STREQ(dropped.cause(0).field, "refused by the peer");
}

TEST_F(RendezvousTest, PrepareOfAListenerThatFailsIsTheResultOfAccept) {
  int calls = 0;
  ListenOptions options;
  options.prepare = [&](PreparedChannel&, const Peer&) -> Result<Preparation> {
    if (++calls == 1) return std::unexpected(Error{.code = Errc::out_of_resources});
    if (calls == 2) throw std::runtime_error{"no idea"};
    return {};
  };
  const auto listener = require(Listener::open(domain, "127.0.0.1:0", options));
  auto first = dialling(listener);
  const auto failed = listener.accept(kPatience);
  ASSERT_TRUE(fails_with(failed, Errc::out_of_resources));
  EXPECT_STREQ(failed.error().field, "prepare");
  const auto told = first.get();
  ASSERT_TRUE(fails_with(told, Errc::out_of_resources));
  EXPECT_EQ(told.error().text_view(), "prepare");
  auto second = dialling(listener);
  const auto threw = listener.accept(kPatience);
  ASSERT_TRUE(fails_with(threw, Errc::permission_denied));
  EXPECT_EQ(threw.error().text_view(), "no idea");
  EXPECT_TRUE(fails_with(second.get(), Errc::permission_denied));
  expect_good_client(listener);
}

TEST_F(RendezvousTest, NobodyThereIsTimedOut) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  const auto nobody = listener.accept(20ms);
  ASSERT_TRUE(fails_with(nobody, Errc::timed_out));
  EXPECT_STREQ(nobody.error().field, "connection");
  // There is a listener, but it does not accept.
  const auto silent = dial(domain, listener.address(), {.deadline = 50ms});
  ASSERT_TRUE(fails_with(silent, Errc::timed_out));
  EXPECT_STREQ(silent.error().field, "the peer's greeting");
}

TEST_F(RendezvousTest, BadAddressesAreRefusedByName) {
  EXPECT_TRUE(fails_with(Listener::open(domain, "nonsense"), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(dial(domain, "127.0.0.1:0"), Errc::invalid_argument));
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  EXPECT_TRUE(fails_with(Listener::open(domain, listener.address()), Errc::busy));
}

TEST_F(RendezvousTest, ReadyRecordConfirmsTheRightPeerOnly) {
  auto [left, right] = require(connect_pair(domain));
  EXPECT_TRUE(succeeds(left.confirm(right.ready_record())));
  EXPECT_TRUE(succeeds(right.confirm(left.ready_record())));
  EXPECT_TRUE(fails_with(left.confirm(left.ready_record()), Errc::incompatible));
  auto [other, unused] = require(connect_pair(domain));
  EXPECT_TRUE(fails_with(left.confirm(other.ready_record()), Errc::incompatible));
  EXPECT_TRUE(fails_with(left.confirm({}), Errc::malformed));
  exchange(left, right);
}

TEST_F(RendezvousTest, CloseWaitsForAPeerThatStillSends) {
  auto [fast, slow] = meet();
  std::vector<Pending<Buffer>> receiving;
  for (int i = 0; i < 4; ++i) receiving.push_back(fast.receive(empty(64)));
  auto closing = std::async(std::launch::async, [&] { return fast.close(kPatience); });
  // Without the exchange of "done" it would be over by now, and the following would fail.
  EXPECT_EQ(closing.wait_for(100ms), std::future_status::timeout);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(succeeds(slow.send(filled(64, seed)).wait().result)) << i;
  EXPECT_TRUE(succeeds(slow.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
  for (auto& each : receiving) {
    auto [received, result] = each.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(received.bytes(), seed));
  }
}

TEST_F(RendezvousTest, CloseOfASenderLeavesTheReceiverItsMessages) {
  auto [fast, slow] = meet();
  std::vector<Pending<Buffer>> sending;
  for (std::uint64_t i = 0; i < 4; ++i) sending.push_back(fast.send(filled(64, seed + i)));
  auto closing = std::async(std::launch::async, [&] { return fast.close(kPatience); });
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto [received, result] = slow.receive(empty(64)).wait();
    ASSERT_TRUE(succeeds(result)) << i;
    EXPECT_TRUE(holds(received.bytes(), seed + i));
  }
  EXPECT_TRUE(succeeds(slow.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(RendezvousTest, CloseGivesUpOnAPeerThatGoesOn) {
  auto [fast, slow] = meet();
  const auto late = fast.close(30ms);
  ASSERT_TRUE(fails_with(late, Errc::timed_out));
  EXPECT_STREQ(late.error().field, "the peer's done");
  EXPECT_EQ(fast.cause()->code, Errc::closed);
  EXPECT_TRUE(succeeds(slow.close(kPatience)));  // The peer is gone, which counts as done.
}

TEST_F(RendezvousTest, CloseDoesNotWaitForAPeerThatIsGone) {
  auto [left, right] = meet();
  auto untaken = right.receive(empty(64));  // Its result keeps the state, but not the link.
  {
    const Channel gone = std::move(right);
  }
  const auto start = Clock::now();
  EXPECT_TRUE(succeeds(left.close(kPatience)));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
  EXPECT_TRUE(fails_with(untaken.wait().result, Errc::closed));
}

TEST_F(RendezvousTest, CancelEndsACloseThatWaits) {
  auto [left, right] = meet();
  const Canceller canceller = left.canceller();
  auto closing = std::async(std::launch::async, [&] { return left.close(kPatience); });
  EXPECT_EQ(closing.wait_for(20ms), std::future_status::timeout);
  canceller.cancel();
  EXPECT_TRUE(fails_with(closing.get(), Errc::cancelled));
}

/// One thread for both, as in an event loop: neither waits for the other.
TEST_F(RendezvousTest, StartedClosesOfBothSidesEndInPoll) {
  auto [left, right] = meet();
  auto receiving = right.receive(empty(64));
  auto sending = left.send(filled(64, seed));
  // Longer than the wait below: the descriptors say what there is to do, not the deadline.
  left.start_close(4 * kPatience);
  EXPECT_TRUE(fails_with(left.send(filled(64, seed)).wait().result, Errc::closed));
  right.start_close(4 * kPatience);
  const int fds[] = {require(left.fd()), require(right.fd())};
  const auto end = Clock::now() + kPatience;
  while ((!left.is_over() || !right.is_over()) && Clock::now() < end) {
    pollfd entries[] = {{.fd = left.is_over() ? -1 : fds[0], .events = POLLIN, .revents = 0},
                        {.fd = right.is_over() ? -1 : fds[1], .events = POLLIN, .revents = 0}};
    ASSERT_GT(poll(entries, 2, static_cast<int>(std::chrono::milliseconds{kPatience}.count())), 0);
    static_cast<void>(left.poll());
    static_cast<void>(right.poll());
  }
  EXPECT_TRUE(succeeds(sending.wait().result));
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
  EXPECT_TRUE(fails_with(left.poll(), Errc::closed));
  EXPECT_TRUE(succeeds(left.close()));
  EXPECT_TRUE(succeeds(right.close()));
}

TEST_F(RendezvousTest, StartedCloseIsFinishedByClose) {
  auto [left, right] = meet();
  left.start_close();
  EXPECT_FALSE(left.is_over());
  EXPECT_FALSE(left.cause()) << "the peer may still send";
  exchange(right, left);
  right.start_close();
  EXPECT_TRUE(succeeds(left.close(kPatience)));
  EXPECT_TRUE(succeeds(right.close(kPatience)));
}

TEST_F(RendezvousTest, ChannelsOfTheirOwnCarrierPartTheSameWay) {
  auto [fast, slow] = require(connect_pair(domain));
  auto receiving = fast.receive(empty(64));
  auto blocked = slow.send(filled(64, seed));
  EXPECT_TRUE(succeeds(fast.finish_sends()));
  EXPECT_TRUE(succeeds(slow.finish_sends()));
  EXPECT_TRUE(succeeds(blocked.wait().result));
  EXPECT_TRUE(succeeds(receiving.wait().result));
  // Nobody receives this. The time runs out, but the channel lives.
  auto unwanted = fast.send(filled(64, seed));
  EXPECT_TRUE(fails_with(fast.finish_sends(10ms), Errc::timed_out));
  EXPECT_FALSE(fast.cause());
  EXPECT_TRUE(succeeds(slow.receive(empty(64)).wait().result));
  EXPECT_TRUE(succeeds(unwanted.wait().result));
}

TEST_F(RendezvousTest, RecycledChannelHasNoConnectionAnyMore) {
  auto [left, right] = meet();
  left.cancel();
  right.cancel();
  static_cast<void>(left.poll());
  static_cast<void>(right.poll());
  auto first = require(std::move(left).recycle());
  auto second = require(std::move(right).recycle());
  const Endpoint a = first.endpoint();
  const Endpoint b = second.endpoint();
  Channel again = require(std::move(first).connect(b));
  Channel other = require(std::move(second).connect(a));
  exchange(again, other);
  EXPECT_TRUE(succeeds(again.close(kPatience)));  // One thread: neither waits for the other.
  EXPECT_TRUE(succeeds(other.close(kPatience)));
}

TEST_F(RendezvousTest, TwoProcessesTalkAndPart) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  Child child = start_child({"dialler", listener.address()});
  Channel channel = require(listener.accept(kPatience)).channel;
  serve_echo(domain, channel);
  EXPECT_TRUE(succeeds(channel.close(kPatience)));
  const ChildResult result = run_to_end(std::move(child));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(RendezvousTest, CloseDoesNotWaitForAProcessThatWasKilled) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  Child child = start_child({"dialler", listener.address()});
  Channel channel = require(listener.accept(kPatience)).channel;
  child.kill();
  const auto start = Clock::now();
  EXPECT_TRUE(succeeds(channel.close(kPatience)));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

}  // namespace
}  // namespace verbatim::test
