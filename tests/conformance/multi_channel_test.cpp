// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: peers come and go, their indices and channels stay the same, and what happens to one does
//       not affect the others.
// Covers: multi/multi_channel.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "conformance/multi_peers.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class Multi : public MultiPeers {
 protected:
  /// `all` receive what is sent to all of them; the second peer answers.
  Task<Result<void>> talk(std::vector<Pending<Buffer>>& all) {
    auto answer = multi[1].receive(memory());
    const auto peers = multi.peers();
    // It blocks, and meanwhile files what arrives for the others.
    const auto sent = multi.multicast(peers, Send{piece(2)});
    EXPECT_TRUE(succeeds(sent));
    for (auto& each : all) EXPECT_TRUE(got(each, 2));
    EXPECT_TRUE(succeeds(far[1]->send(piece(3))));
    const auto done = co_await std::move(answer);
    EXPECT_TRUE(succeeds(done.result));
    EXPECT_TRUE(is_piece(done.received(), 3));
    co_return Result<void>{};
  }
};

TEST_F(Multi, PeersKeepTheirIndicesAndHolesAreTaken) {
  EXPECT_EQ(multi.size(), kPeers);
  const Channel* const last = &multi[3];
  const Channel removed = require(multi.remove(1));
  EXPECT_EQ(multi.size(), kPeers - 1);
  EXPECT_EQ(multi.peers(), (std::vector<PeerIndex>{0, 2, 3}));
  EXPECT_FALSE(multi.contains(1));
  EXPECT_TRUE(multi.contains(3));
  EXPECT_EQ(join(), 1u);
  EXPECT_EQ(join(), kPeers);
  for (int i = 0; i < 20; ++i) join();
  EXPECT_EQ(&multi[3], last) << "a Channel& must stay good";
  for (const PeerIndex peer : multi.peers()) EXPECT_TRUE(works(peer));
}

TEST_F(Multi, RemovedChannelWorksOn) {
  Channel alone = require(multi.remove(2));
  auto receiving = accept(2);
  EXPECT_TRUE(succeeds(alone.send(piece(5))));
  EXPECT_TRUE(got(receiving, 5));
  EXPECT_TRUE(fails_with(multi.remove(2), Errc::not_found));
  EXPECT_TRUE(fails_with(multi.remove(99), Errc::not_found));
  EXPECT_EQ(require(multi.add(std::move(alone))), 2u);
  EXPECT_TRUE(works(2));
}

TEST_F(Multi, ChannelThatIsNotOnTheReactorIsRefusedAndStays) {
  const Reactor other = require(Reactor::create(domain));
  for (const SharedCompletions& on : {SharedCompletions{}, SharedCompletions{other}}) {
    auto [left, right] = require(connect_pair(domain, {.on = on}));
    const auto added = multi.add(std::move(left));
    ASSERT_TRUE(fails_with(added, Errc::invalid_argument));
    auto receiving = right.receive(memory());
    EXPECT_TRUE(succeeds(left.send(piece(3))));  // NOLINT(bugprone-use-after-move): it stays ours
    EXPECT_TRUE(got(receiving, 3));
  }
  EXPECT_EQ(multi.size(), kPeers);
}

TEST_F(Multi, NoSuchPeerIsAProgrammingErrorInBrackets) {
  const ThrowingContracts throwing;
  EXPECT_THROW(static_cast<void>(multi[kPeers]), ContractViolation);
  const Channel removed = require(multi.remove(0));
  EXPECT_THROW(static_cast<void>(multi[0]), ContractViolation);
}

TEST_F(Multi, OnePeersOperationsAreItsChannels) {
  SharedRegion window =
      require(domain.allocate_shared(kPiece, Access::remote_read | Access::remote_write));
  EXPECT_TRUE(succeeds(multi[1].write(piece(4), window.remote())));
  EXPECT_TRUE(succeeds(multi[2].read(place(0), window.remote())));
  EXPECT_TRUE(came(0, 4));
  auto receiving = multi[3].receive(memory());
  EXPECT_TRUE(succeeds(far[3]->send(piece(6))));
  EXPECT_TRUE(got(receiving, 6));
  EXPECT_TRUE(all_idle());
}

TEST_F(Multi, OutlivesItsReactor) {
  {
    const Reactor gone = std::move(reactor);
  }
  auto receiving = accept_from_all();
  EXPECT_TRUE(succeeds(multi.multicast(multi.peers(), Send{piece(2)})));
  for (auto& each : receiving) EXPECT_TRUE(got(each, 2));
}

TEST_F(Multi, SharesItsChannelsWithCoroutines) {
  auto receiving = accept_from_all();
  EXPECT_TRUE(succeeds(reactor.run(talk(receiving))));
}

TEST_F(Multi, PeersOfAReactorWithSharedReceives) {
  reactor = require(
      Reactor::create(domain, {.receives = SharedReceiveOptions{.bytes = kPiece, .count = 16}}));
  multi = MultiChannel{reactor, domain};
  far.clear();
  for (PeerIndex i = 0; i < 2; ++i) EXPECT_EQ(join(), i);
  auto receiving = accept_from_all();
  EXPECT_TRUE(succeeds(multi.multicast(multi.peers(), Send{piece(4)})));
  for (auto& each : receiving) EXPECT_TRUE(got(each, 4));
  EXPECT_TRUE(succeeds(far[1]->send(piece(5))));
  const auto message = multi[1].receive().wait(kPatience);
  ASSERT_TRUE(succeeds(message.result));
  EXPECT_TRUE(is_piece(message.received(), 5));
  // There are no separate receives.
  std::vector<PeerWork<Receive<1>>> receives;
  receives.push_back({0, Receive{place(0)}});
  std::array<Completion, 1> out;
  EXPECT_TRUE(names(multi.gather(receives, out), {{0, Errc::unsupported}}));
  EXPECT_FALSE(out[0].ok());
}

TEST_F(Multi, OwnMemoryOfAPeerKnowsWhoseItIs) {
  const PeerRemoteMemory all{3, {.address = 4096, .length = 100, .key = RemoteKey{5}}};
  EXPECT_EQ(all.sub_region(40, 60), (PeerRemoteMemory{3, {4136, 60, RemoteKey{5}}}));
  EXPECT_EQ(all.sub_region(40), (PeerRemoteMemory{3, {4136, 60, RemoteKey{5}}}));
  EXPECT_EQ(all.sub_region_unchecked(40), (PeerRemoteMemory{3, {4136, 60, RemoteKey{5}}}));
  EXPECT_EQ(all.sub_region(40, 61), std::nullopt);
  EXPECT_EQ(all.sub_region(101), std::nullopt);
}

// ---- Isolation ----------------------------------------------------------------------------------

TEST_F(Multi, OneBreaksOneIsLateOneIsRecycledAndTheOthersGoOn) {
  auto waiting = multi[3].receive(memory());
  const std::array works_of{PeerWork{0, failing_write()}};
  EXPECT_TRUE(names(multi.scatter(works_of), {{0, Errc::work_failed}}));
  EXPECT_TRUE(multi[0].cause());
  EXPECT_TRUE(names(multi.multicast(std::array<PeerIndex, 1>{1}, Send{piece(1)}, 20ms),
                    {{1, Errc::timed_out}}));
  EXPECT_TRUE(multi[1].cause());
  EXPECT_FALSE(multi[2].cause());
  EXPECT_FALSE(multi[3].cause());
  EXPECT_TRUE(works(2));

  static_cast<void>(far[0]->close(10ms));
  auto ours = require(std::move(multi[0]).recycle());
  auto theirs = require(std::move(*far[0]).recycle());
  const Endpoint here = ours.endpoint();
  const Endpoint there = theirs.endpoint();
  multi[0] = require(std::move(ours).connect(there));
  *far[0] = require(std::move(theirs).connect(here));
  EXPECT_TRUE(works(0));
  EXPECT_TRUE(works(2));

  EXPECT_TRUE(succeeds(far[3]->send(piece(9))));
  EXPECT_TRUE(got(waiting, 9)) << "of the peer that waited all the time";
  auto receiving = accept(0);
  auto other = accept(2);
  EXPECT_TRUE(names(multi.multicast(multi.peers(), Send{piece(3)}, 500ms),
                    {{1, Errc::broken}, {3, Errc::timed_out}}));
  EXPECT_TRUE(got(receiving, 3));
  EXPECT_TRUE(got(other, 3));
}

TEST_F(Multi, PeersThatComeAndGoDisturbNobody) {
  Random random{seed};
  for (int round = 0; round < 60; ++round) {
    const auto peers = multi.peers();
    if (peers.size() > 1 && random.up_to(1) == 0) {
      const Channel gone = require(multi.remove(peers[random.up_to(peers.size() - 1)]));
    } else if (peers.size() < 8) {
      join();
    }
    auto receiving = accept_from_all();
    const std::size_t index = random.up_to(63);
    ASSERT_TRUE(succeeds(multi.multicast(multi.peers(), Send{piece(index)})))
        << "round " << round << ", seed " << seed;
    for (auto& each : receiving) ASSERT_TRUE(got(each, index)) << "round " << round;
  }
  EXPECT_TRUE(all_idle());
}

}  // namespace
}  // namespace verbatim::test
