// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel whose endpoints were carried by hand notices that its peer can no longer be
//       reached, even if it only receives; and a live peer is not disturbed.
// Method: a peer in this process that goes away, and a peer process that is killed.
// Covers: channel/keepalive.cpp
#include <gtest/gtest.h>
#include <poll.h>

#include <utility>

#include "conformance/channel_peer.hpp"
#include "conformance/child_process.hpp"
#include "conformance/connected_channels.hpp"
#include "support/soft_faults.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

ChannelOptions with_keepalive() {
  ChannelOptions options = peer_options();
  options.max_sends = 4;
  options.keepalive = 5ms;
  // A device in the kernel may have to wait for a processor before it answers. The software device
  // answers in the thread that asks.
  if (!on_soft_device()) options.ack_timeout = require(AckTimeout::at_least(250ms));
  return options;
}

class Keepalive : public ConnectedChannels {
 protected:
  Keepalive() : ConnectedChannels(with_keepalive()) {}
};

TEST_F(Keepalive, OfAPeerThatIsThereIsNotNoticed) {
  auto receiving = right.receive(empty(kPiece));
  EXPECT_FALSE(receiving.ready_within(60ms));  // A dozen keepalives, both ways.
  EXPECT_FALSE(left.receive(empty(kPiece)).ready_within(60ms));
  EXPECT_EQ(require(left.poll()), 0u);
  EXPECT_EQ(left.free_sends(), 4u);
  EXPECT_TRUE(succeeds(left.send(filled(kPiece, seed)).wait().result));
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
  EXPECT_FALSE(left.cause());
  EXPECT_FALSE(right.cause());
}

TEST_F(Keepalive, EndsAWaitWhenThePeersQueuePairIsGone) {
  auto receiving = right.receive(empty(kPiece));
  {
    const Channel gone = std::move(left);
  }
  EXPECT_TRUE(fails_with(receiving.wait(kForever).result, Errc::peer_lost));
  EXPECT_EQ(right.cause()->code, Errc::peer_lost);
  EXPECT_STREQ(right.cause()->operation, "keepalive");
}

TEST_F(Keepalive, IsSeenAtFdAndToldByPoll) {
  if (reactor) GTEST_SKIP() << "the Reactor has one descriptor for all";
  auto receiving = right.receive(empty(kPiece));
  const int fd = require(right.fd());
  {
    const Channel gone = std::move(left);
  }
  Result<std::size_t> polled{};
  const auto end = Clock::now() + kPatience;
  while (polled && Clock::now() < end) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&entry, 1, static_cast<int>(std::chrono::milliseconds{kPatience}.count())), 1);
    polled = right.poll();
  }
  EXPECT_TRUE(fails_with(polled, Errc::peer_lost));
  EXPECT_TRUE(right.is_over());
  EXPECT_TRUE(receiving.ready());
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::peer_lost));
}

TEST_F(Keepalive, NeedsAPeerThatAllowsWrites) {
  auto one = require(PreparedChannel::create(domain, with_keepalive()));
  const auto other = require(PreparedChannel::create(domain, {.access = Access::remote_read}));
  const auto refused = std::move(one).connect(other.endpoint());
  ASSERT_TRUE(fails_with(refused, Errc::unsupported));
  EXPECT_STREQ(refused.error().field, "keepalive");
  // Nothing has changed, so it can be connected to another peer.
  const auto third = require(PreparedChannel::create(domain));
  EXPECT_TRUE(succeeds(std::move(one).connect(third.endpoint())));
}

TEST_F(Keepalive, SurvivesRecycling) {
  left.cancel();
  right.cancel();
  auto [one, two] = join(require(std::move(left).recycle()), require(std::move(right).recycle()));
  exchange(one, two);
  EXPECT_FALSE(one.receive(empty(kPiece)).ready_within(20ms));
  {
    const Channel gone = std::move(two);
  }
  EXPECT_TRUE(fails_with(one.receive(empty(kPiece)).wait(kForever).result, Errc::peer_lost));
}

TEST(KeepaliveProcesses, KilledPeerEndsAWaitThatOnlyReceives) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  LinkListener listener;
  Child doomed = start_child({"channel_peer", std::to_string(listener.port()), "idle"});
  Link link = listener.accept();
  Channel channel = join_channel(link, require(PreparedChannel::create(domain, with_keepalive())));
  auto receiving = channel.receive(require(domain.allocate(64)));
  EXPECT_FALSE(receiving.ready_within(30ms)) << "the peer's device answers for its program";
  EXPECT_FALSE(channel.cause());
  doomed.kill();
  const auto start = Clock::now();
  auto [buffer, result] = receiving.wait(kForever);
  EXPECT_TRUE(fails_with(result, Errc::peer_lost));
  EXPECT_TRUE(buffer);
  EXPECT_LT(Clock::now() - start, kPatience);
}

}  // namespace
}  // namespace verbatim::test
