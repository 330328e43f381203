// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bulk calls on borrowed memory post to all peers before they wait for any, name the peers
//       that failed, and complete for the others.
// Covers: multi/bulk.cpp, multi/bulk_error.cpp
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "conformance/multi_peers.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Bulk : public MultiPeers {
 protected:
  using Sends = std::vector<PeerWork<Send<1>>>;
  const std::vector<PeerIndex> all = multi.peers();
};

TEST_F(Bulk, MulticastReachesAll) {
  auto receiving = accept_from_all();
  EXPECT_TRUE(succeeds(multi.multicast(all, Send{piece(3), {.immediate = 77}})));
  for (auto& each : receiving) {
    const auto done = each.wait();
    ASSERT_TRUE(succeeds(done.result));
    EXPECT_TRUE(is_piece(done.received(), 3));
    EXPECT_EQ(done.result->immediate(), 77u);
  }
  EXPECT_TRUE(all_idle());
}

TEST_F(Bulk, ScatterGivesEachItsOwn) {
  auto receiving = accept_from_all();
  Sends sends;
  for (const PeerIndex peer : all) sends.push_back({peer, Send{piece(peer + 10)}});
  EXPECT_TRUE(succeeds(multi.scatter(sends)));
  for (const PeerIndex peer : all) EXPECT_TRUE(got(receiving[peer], peer + 10));
}

TEST_F(Bulk, ScatterWritesAndGatherReadsThem) {
  SharedRegion window =
      require(domain.allocate_shared(kPeers * kPiece, Access::remote_read | Access::remote_write));
  std::vector<PeerWork<Write<1>>> writes;
  std::vector<PeerWork<Read<1>>> reads;
  for (const PeerIndex peer : all) {
    const PeerRemoteMemory there =
        *PeerRemoteMemory{peer, window.remote()}.sub_region(peer * kPiece, kPiece);
    writes.push_back(there.write(piece(peer)));
    reads.push_back(there.read(place(kPeers - 1 - peer)));
  }
  EXPECT_TRUE(succeeds(multi.scatter(writes)));
  std::array<Completion, kPeers> out;
  EXPECT_TRUE(succeeds(multi.gather(reads, out)));
  for (const PeerIndex peer : all) {
    EXPECT_TRUE(came(kPeers - 1 - peer, peer));
    EXPECT_TRUE(out[peer].ok());
    EXPECT_EQ(out[peer].byte_count(), kPiece);
  }
  EXPECT_TRUE(all_idle());
}

TEST_F(Bulk, GatherReceivesInTheOrderOfTheCall) {
  std::vector<PeerWork<Receive<1>>> receives;
  std::vector<Pending<Buffer>> sending;
  for (const PeerIndex peer : {2u, 0u, 3u, 1u})
    receives.push_back({peer, Receive{place(receives.size())}});
  // They cannot be over before the receives are posted.
  for (const PeerIndex peer : all)
    sending.push_back(far[peer]->send(filled(peer), {.length = kPiece - peer}));
  std::array<Completion, kPeers> out;
  EXPECT_TRUE(succeeds(multi.gather(receives, out)));
  for (std::size_t i = 0; i < receives.size(); ++i) {
    EXPECT_EQ(out[i].byte_count(), kPiece - receives[i].peer);
    EXPECT_EQ(sink[i * kPiece], source[receives[i].peer * kPiece]);
  }
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(Bulk, SamePeerRepeatedlyIsServedInOrder) {
  std::vector<Pending<Buffer>> receiving;
  for (int i = 0; i < 3; ++i) receiving.push_back(accept(1));
  auto other = accept(2);
  const Sends sends{
      {1, Send{piece(5)}}, {1, Send{piece(6)}}, {2, Send{piece(8)}}, {1, Send{piece(7)}}};
  EXPECT_TRUE(succeeds(multi.scatter(sends)));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(got(receiving[i], i + 5));
  EXPECT_TRUE(got(other, 8));
}

TEST_F(Bulk, EmptyListsSucceed) {
  std::array<Completion, 1> out;
  EXPECT_TRUE(succeeds(multi.multicast({}, Send{piece(0)})));
  EXPECT_TRUE(succeeds(multi.scatter(Sends{})));
  EXPECT_TRUE(succeeds(multi.gather(std::vector<PeerWork<Receive<1>>>{}, out)));
  MultiChannel nobody{reactor, domain};
  EXPECT_TRUE(succeeds(nobody.multicast(nobody.peers(), Send{piece(0)})));
  EXPECT_EQ(nobody.size(), 0u);
}

// ---- Misuse -------------------------------------------------------------------------------------

TEST_F(Bulk, BadIndexMidwayPostsNothing) {
  const Channel removed = require(multi.remove(2));
  std::array<Completion, 3> out;
  for (const PeerIndex bad : {2u, 4u, 4'000'000'000u}) {
    const std::array<PeerIndex, 3> peers{0, bad, 1};
    const Sends sends{{0, Send{piece(1)}}, {bad, Send{piece(1)}}, {1, Send{piece(1)}}};
    std::vector<PeerWork<Receive<1>>> receives;
    for (const PeerIndex peer : peers) receives.push_back({peer, Receive{place(peer % 8)}});
    const BulkResult results[] = {multi.multicast(peers, Send{piece(1)}), multi.scatter(sends),
                                  multi.gather(receives, out)};
    for (const BulkResult& result : results) {
      ASSERT_TRUE(names(result, {{bad, Errc::not_found}}));
      EXPECT_EQ(result.error().peers.front().value, bad);
      EXPECT_STREQ(result.error().peers.front().field, "peer");
    }
    EXPECT_TRUE(all_idle());
  }
  // Nothing else is on its way to them, so this arrives first.
  EXPECT_TRUE(works(0, 20));
  EXPECT_TRUE(works(1, 21));
}

TEST_F(Bulk, TooFewPlacesForResultsAreAProgrammingError) {
  const ThrowingContracts throwing;
  std::vector<PeerWork<Receive<1>>> receives;
  receives.push_back({0, Receive{place(0)}});
  EXPECT_THROW(static_cast<void>(multi.gather(receives, {})), ContractViolation);
  EXPECT_TRUE(all_idle());
}

// ---- Failures -----------------------------------------------------------------------------------

TEST_F(Bulk, LatePeerEndsAloneAndTheOthersHaveTheirs) {
  std::vector<Pending<Buffer>> receiving;  // The first peer of the call has none.
  for (const PeerIndex peer : {1u, 2u, 3u}) receiving.push_back(accept(peer));
  const BulkResult result = multi.multicast(all, Send{piece(3)}, 500ms);
  EXPECT_TRUE(names(result, {{0, Errc::timed_out}}));
  EXPECT_STREQ(result.error().peers.front().field, "the peer's receive");
  EXPECT_EQ(multi[0].cause(), Errc::timed_out);
  EXPECT_TRUE(multi[0].is_over());
  for (auto& each : receiving) EXPECT_TRUE(got(each, 3));
  for (const PeerIndex peer : {1u, 2u, 3u}) EXPECT_FALSE(multi[peer].cause());
}

TEST_F(Bulk, AllThatAreLateAreWaitedForTogether) {
  std::vector<PeerIndex> silent = crowd();
  std::vector<PeerWork<Receive<1>>> receives;
  for (const PeerIndex peer : silent) receives.push_back({peer, Receive{place(peer)}});
  silent.erase(silent.begin() + 2);
  auto sending = far[2]->send(filled(2));
  std::array<Completion, kMany> out;
  const auto start = Clock::now();
  EXPECT_TRUE(names(multi.gather(receives, out, kLate), late(silent)));
  EXPECT_LT(Clock::now() - start, kTogether);
  EXPECT_TRUE(out[2].ok());
  EXPECT_TRUE(came(2, 2));
  for (const PeerIndex peer : silent) EXPECT_FALSE(out[peer].ok());
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_TRUE(works(2));
}

TEST_F(Bulk, LateSendsAreWaitedForTogether) {
  const std::vector<PeerIndex> deaf = crowd();
  const auto start = Clock::now();
  EXPECT_TRUE(names(multi.multicast(deaf, Send{piece(0)}, kLate), late(deaf)));
  EXPECT_LT(Clock::now() - start, kTogether);
}

TEST_F(Bulk, EachFailedPeerIsNamedOnce) {
  SharedRegion window = require(domain.allocate_shared(kPiece, Access::remote_write));
  const std::vector<PeerWork<Write<1>>> writes{{0, Write{piece(0), window.remote()}},
                                               {1, failing_write()},
                                               {1, Write{piece(0), window.remote()}},
                                               {2, Write{piece(0), window.remote()}},
                                               {3, failing_write()}};
  const BulkResult result = multi.scatter(writes);
  EXPECT_TRUE(names(result, {{1, Errc::work_failed}, {3, Errc::work_failed}}));
  EXPECT_EQ(status_of(result.error().peers[0]), WorkStatus::remote_access);
  EXPECT_TRUE(multi[1].is_over());
  EXPECT_TRUE(works(0));
  EXPECT_TRUE(works(2));
  // From now on they refuse.
  auto receiving = accept(2);
  EXPECT_TRUE(names(multi.multicast(std::array<PeerIndex, 3>{1, 2, 3}, Send{piece(4)}),
                    {{1, Errc::broken}, {3, Errc::broken}}));
  EXPECT_TRUE(got(receiving, 4));
}

TEST_F(Bulk, FailedGatherTellsWhichWorkSucceeded) {
  SharedRegion window = require(domain.allocate_shared(kPiece, Access::remote_read));
  std::vector<PeerWork<Read<1>>> reads;
  reads.push_back({0, Read{place(0), window.remote()}});
  reads.push_back({1, Read{place(1), RemoteMemoryRegion{4096, kPiece, RemoteKey{0x7fffff01}}}});
  reads.push_back({2, Read{place(2), window.remote()}});
  std::array<Completion, 3> out;
  EXPECT_TRUE(names(multi.gather(reads, out), {{1, Errc::work_failed}}));
  EXPECT_TRUE(out[0].ok());
  EXPECT_EQ(out[1].status(), WorkStatus::remote_access);
  EXPECT_TRUE(out[2].ok());
}

TEST_F(Bulk, CancelOfOnePeerEndsItsPartOnly) {
  std::vector<Pending<Buffer>> receiving;
  for (const PeerIndex peer : {0u, 1u, 2u}) receiving.push_back(accept(peer));
  const Canceller canceller = multi[3].canceller();
  const std::jthread other{[&] { canceller.cancel(); }};
  const BulkResult result = multi.multicast(all, Send{piece(6)}, kPatience);
  ASSERT_FALSE(result);
  ASSERT_EQ(result.error().peers.size(), 1u);
  EXPECT_EQ(result.error().peers[0].peer, 3u);
  EXPECT_EQ(multi[3].cause(), Errc::cancelled);
  for (auto& each : receiving) EXPECT_TRUE(got(each, 6));
}

TEST_F(Bulk, ErrorsArePrintedAndTriedByPeer) {
  const auto call = [&]() -> Result<int> {
    VERBATIM_TRY(multi.multicast(std::array<PeerIndex, 1>{9}, Send{piece(0)}));
    return 1;
  };
  const auto tried = call();
  ASSERT_TRUE(fails_with(tried, Errc::not_found));
  EXPECT_EQ(tried.error().value, 9u);
  const BulkResult two = multi.multicast(std::array<PeerIndex, 3>{1, 0, 1}, Send{piece(0)}, 10ms);
  ASSERT_TRUE(names(two, {{1, Errc::timed_out}, {0, Errc::timed_out}}));
  const std::string text = to_string(two.error());
  EXPECT_NE(text.find("peer 1: wait: timed out"), std::string::npos) << text;
  EXPECT_NE(text.find("\npeer 0: wait: timed out"), std::string::npos) << text;
  EXPECT_GT(explain(two.error()).size(), text.size());
}

// ---- Full queues --------------------------------------------------------------------------------

TEST_F(Bulk, WaitsForRoomAndKeepsTheOrderOfAPeer) {
  std::vector<Pending<Buffer>> receiving;
  std::vector<PeerIndex> peers;
  Sends sends;
  for (std::size_t i = 0; i < 3 * kDepth; ++i) {
    receiving.push_back(accept(1));
    sends.push_back({1, Send{piece(i)}});
  }
  auto other = accept(2);
  sends.push_back({2, Send{piece(60)}});
  EXPECT_TRUE(succeeds(multi.scatter(sends)));
  for (std::size_t i = 0; i < receiving.size(); ++i) EXPECT_TRUE(got(receiving[i], i));
  EXPECT_TRUE(got(other, 60));
  EXPECT_TRUE(all_idle());
}

TEST_F(Bulk, GathersMoreThanAQueueHolds) {
  std::vector<PeerWork<Receive<1>>> receives;
  std::vector<Pending<Buffer>> sending;
  for (std::size_t i = 0; i < 2 * kDepth; ++i) {
    receives.push_back({3, Receive{place(i)}});
    sending.push_back(far[3]->send(filled(i)));
  }
  std::array<Completion, 2 * kDepth> out;
  EXPECT_TRUE(succeeds(multi.gather(receives, out)));
  for (std::size_t i = 0; i < receives.size(); ++i) EXPECT_TRUE(came(i, i));
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(Bulk, FullQueueHoldsUpItsPeerOnly) {
  std::vector<Pending<Buffer>> stuck;  // Peers 0 and 2 receive nothing.
  for (std::uint32_t i = 0; i < kDepth; ++i) stuck.push_back(multi[0].send(memory()));
  for (std::uint32_t i = 0; i < kDepth; ++i) stuck.push_back(multi[2].send(memory()));
  auto one = accept(1);
  auto three = accept(3);
  EXPECT_TRUE(names(multi.multicast(all, Send{piece(3)}, 500ms),
                    {{0, Errc::timed_out}, {2, Errc::timed_out}}));
  EXPECT_TRUE(got(one, 3));
  EXPECT_TRUE(got(three, 3));
  for (auto& each : stuck) EXPECT_TRUE(fails_with(each.wait().result, Errc::timed_out));
  EXPECT_TRUE(works(1));
}

TEST_F(Bulk, PeerThatEndsWhileAnotherIsWaitedForIsNoticed) {
  // If the thread that cancels comes too late, both peers are late. Then it gets longer.
  for (auto limit = 500ms;; limit *= 4) {
    const PeerIndex full = join();
    const PeerIndex ended = join();
    std::vector<Pending<Buffer>> stuck;
    for (std::uint32_t i = 0; i < kDepth; ++i) stuck.push_back(multi[full].send(memory()));
    for (std::uint32_t i = 0; i < kDepth; ++i) stuck.push_back(multi[ended].send(memory()));
    const Canceller canceller = multi[ended].canceller();
    const std::jthread other{[&] { canceller.cancel(); }};
    const std::array both{full, ended};
    const BulkResult result = multi.multicast(both, Send{piece(3)}, limit);
    if (names(result, late(both)) && limit < kPatience) continue;
    EXPECT_TRUE(names(result, {{full, Errc::timed_out}, {ended, Errc::broken}}));
    EXPECT_EQ(multi[ended].cause(), Errc::cancelled);
    return;
  }
}

}  // namespace
}  // namespace verbatim::test
