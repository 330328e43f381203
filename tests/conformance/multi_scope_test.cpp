// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a scope over peers is over when all of its work is, with any peers; a failure that nobody
//       waited for is reported with its peer, and the other peers are not affected.
// Covers: multi/peer_scope.cpp
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "conformance/multi_peers.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class OverPeers : public MultiPeers {
 protected:
  /// The failures of the scope, in the order of the peers.
  template <class Outcome>
  [[nodiscard]] static testing::AssertionResult left_failed(
      const Outcome& outcome, const std::vector<std::pair<PeerIndex, Errc>>& expected) {
    if (outcome) return testing::AssertionFailure() << "it succeeded";
    return names(BulkResult{std::unexpect, BulkError{outcome.error().operations}}, expected);
  }
  const std::vector<PeerIndex> all = multi.peers();
};

TEST_F(OverPeers, EachOperationHasItsPeer) {
  auto receiving = accept(2);
  const auto outcome = multi.scope([&](PeerScope& scope) -> Result<int> {
    const auto answer = scope.post(1, Receive{place(0)});
    const auto sending = scope.post(2, Send{piece(8)});
    VERBATIM_TRY(far[1]->send(piece(4)));
    VERBATIM_TRY(scope.wait(sending));
    const auto done = VERBATIM_TRY(scope.wait(answer));
    EXPECT_TRUE(fails_with(scope.wait(answer), Errc::stale));
    return static_cast<int>(*done.byte_count());
  });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(*outcome, static_cast<int>(kPiece));
  EXPECT_TRUE(came(0, 4));
  EXPECT_TRUE(got(receiving, 8));
  EXPECT_TRUE(all_idle());
}

TEST_F(OverPeers, WhatIsLeftIsWaitedFor) {
  auto receiving = accept_from_all();
  EXPECT_TRUE(multi.scope([&](PeerScope& scope) {
    for (const PeerIndex peer : all)
      if (peer % 2 == 0)
        scope.post_detached(peer, Send{piece(peer)});
      else
        static_cast<void>(scope.post(peer, Send{piece(peer)}));
  }));
  EXPECT_TRUE(all_idle());
  for (const PeerIndex peer : all) EXPECT_TRUE(got(receiving[peer], peer));
}

TEST_F(OverPeers, BulkPostsInAScope) {
  auto receiving = accept_from_all();
  const auto outcome = multi.scope([&](PeerScope& scope) -> Result<void> {
    std::array<Operation, kPeers> sending;
    std::array<Operation, kPeers> gathering;
    std::array<Operation, 2> scattering;
    std::vector<PeerWork<Receive<1>>> receives;
    for (const PeerIndex peer : all) receives.push_back({peer, Receive{place(peer)}});
    VERBATIM_TRY(scope.gather(receives, gathering));
    VERBATIM_TRY(scope.multicast(all, Send{piece(1)}, sending));
    const std::array works_of{PeerWork{0, Send{piece(2)}}, PeerWork{3, Send{piece(3)}}};
    VERBATIM_TRY(scope.scatter(works_of, scattering));
    for (const PeerIndex peer : all) VERBATIM_TRY(far[peer]->send(piece(peer + 20)));
    VERBATIM_TRY(scope.wait_all(gathering));
    VERBATIM_TRY(scope.wait_all(sending));
    auto again = accept(0);
    auto last = accept(3);
    VERBATIM_TRY(scope.wait_all(scattering));
    EXPECT_TRUE(got(again, 2));
    EXPECT_TRUE(got(last, 3));
    return {};
  });
  EXPECT_TRUE(outcome.has_value());
  for (const PeerIndex peer : all) EXPECT_TRUE(came(peer, peer + 20));
  for (auto& each : receiving) EXPECT_TRUE(got(each, 1));
}

TEST_F(OverPeers, BadIndexMidwayPostsNothing) {
  const auto outcome = multi.scope([&](PeerScope& scope) {
    std::array<Operation, 3> handles;
    const std::array<PeerIndex, 3> peers{0, 9, 1};
    const auto refused = scope.multicast(peers, Send{piece(1)}, handles);
    ASSERT_TRUE(fails_with(refused, Errc::not_found));
    EXPECT_EQ(refused.error().value, 9u);
    for (const Operation each : handles) EXPECT_FALSE(each.posted());
    EXPECT_TRUE(all_idle());
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(works(0, 20));
  EXPECT_TRUE(works(1, 21));
}

TEST_F(OverPeers, UnknownPeerComesOutOfWaitOrFailsTheScope) {
  EXPECT_TRUE(multi.scope([&](PeerScope& scope) {
    const auto refused = scope.post(12, Send{piece(1)});
    EXPECT_FALSE(refused.posted());
    EXPECT_TRUE(fails_with(scope.wait(refused), Errc::not_found));
    EXPECT_TRUE(fails_with(scope.wait(refused), Errc::stale));
  }));
  EXPECT_TRUE(left_failed(multi.scope([&](PeerScope& scope) {
    static_cast<void>(scope.post(12, Send{piece(1)}));
    scope.post_detached(13, Send{piece(1)});
  }),
                          {{13, Errc::not_found}, {12, Errc::not_found}}));
}

TEST_F(OverPeers, FullQueueIsToldAtThatPeerOnly) {
  std::vector<Pending<Buffer>> stuck;
  std::vector<Pending<Buffer>> more;
  for (std::uint32_t i = 0; i < kDepth; ++i) stuck.push_back(multi[1].send(memory()));
  auto receiving = accept(2);
  EXPECT_TRUE(multi.scope([&](PeerScope& scope) {
    const std::array handles{scope.post(1, Send{piece(1)}), scope.post(2, Send{piece(1)})};
    EXPECT_TRUE(names(scope.wait_all(handles), {{1, Errc::would_block}}));
  }));
  EXPECT_TRUE(left_failed(
      multi.scope([&](PeerScope& scope) { static_cast<void>(scope.post(1, Send{piece(1)})); }),
      {{1, Errc::would_block}}));
  EXPECT_TRUE(got(receiving, 1));
  for (std::uint32_t i = 0; i < kDepth; ++i) more.push_back(accept(1));
  for (auto& each : stuck) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(OverPeers, DetachedWorkWaitsForRoom) {
  std::vector<Pending<Buffer>> receiving;
  for (std::size_t i = 0; i < 3 * kDepth; ++i) receiving.push_back(accept(1));
  EXPECT_TRUE(multi.scope([&](PeerScope& scope) {
    for (std::size_t i = 0; i < receiving.size(); ++i) scope.post_detached(1, Send{piece(i)});
  }));
  for (std::size_t i = 0; i < receiving.size(); ++i) EXPECT_TRUE(got(receiving[i], i));
}

TEST_F(OverPeers, WaitAnySaysWhoCameFirst) {
  const auto outcome = multi.scope([&](PeerScope& scope) -> Result<void> {
    std::array<Operation, kPeers> handles;
    std::vector<PeerWork<Receive<1>>> receives;
    for (const PeerIndex peer : all) receives.push_back({peer, Receive{place(peer)}});
    VERBATIM_TRY(scope.gather(receives, handles));
    EXPECT_TRUE(fails_with(scope.wait_any(handles, 20ms), Errc::timed_out));
    for (const PeerIndex peer : all) EXPECT_FALSE(multi[peer].cause()) << "it must end nothing";
    EXPECT_FALSE(scope.poll(handles[2]));
    std::vector<Operation> left{handles.begin(), handles.end()};
    for (const PeerIndex peer : {2u, 0u, 3u, 1u}) {
      VERBATIM_TRY(far[peer]->send(piece(peer)));
      const std::size_t first = VERBATIM_TRY(scope.wait_any(left, kPatience));
      EXPECT_EQ(left[first].id(), handles[peer].id());
      VERBATIM_TRY(scope.wait(left[first]));
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(first));
    }
    EXPECT_TRUE(fails_with(scope.wait_any({}), Errc::invalid_argument));
    return {};
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(OverPeers, WaitAnyNoticesTheFailureOfAnyPeer) {
  const auto outcome = multi.scope([&](PeerScope& scope) -> Result<void> {
    const std::array handles{scope.post(0, Receive{place(0)}), scope.post(1, failing_write())};
    EXPECT_EQ(VERBATIM_TRY(scope.wait_any(handles, kPatience)), 1u);
    EXPECT_TRUE(fails_with(scope.wait(handles[1]), Errc::work_failed));
    // It also learns that it was cancelled, while the scope waits for another.
    const auto third = scope.post(2, Receive{place(2)});
    const Canceller canceller = multi[2].canceller();
    const std::jthread other{[&] { canceller.cancel(); }};
    EXPECT_EQ(VERBATIM_TRY(scope.wait_any(std::array{handles[0], third}, kPatience)), 1u);
    EXPECT_TRUE(fails_with(scope.wait(third), Errc::cancelled));
    VERBATIM_TRY(far[0]->send(piece(0)));
    VERBATIM_TRY(scope.wait(handles[0]));
    return {};
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(OverPeers, LatePeerEndsAlone) {
  auto receiving = accept(3);
  std::vector<PeerIndex> deaf = crowd();
  const auto outcome = multi.scope([&](PeerScope& scope) {
    std::vector<Operation> handles;
    for (const PeerIndex peer : deaf) handles.push_back(scope.post(peer, Send{piece(1)}));
    deaf.erase(deaf.begin() + 3);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(names(scope.wait_all(handles, kLate), late(deaf)));
    EXPECT_LT(std::chrono::steady_clock::now() - start, kTogether);
  });
  EXPECT_TRUE(outcome.has_value()) << "all of it was waited for";
  EXPECT_TRUE(got(receiving, 1));
  EXPECT_TRUE(multi[0].is_over());
  EXPECT_FALSE(multi[3].cause());
}

TEST_F(OverPeers, FailuresThatNobodyWaitedForAreToldWithTheirPeers) {
  auto receiving = accept(2);
  const auto outcome = multi.scope([&](PeerScope& scope) -> Result<void> {
    scope.post_detached(3, failing_write());
    static_cast<void>(scope.post(1, failing_write()));
    scope.post_detached(2, Send{piece(6)});
    return std::unexpected(Error{.code = Errc::malformed, .operation = "the closure"});
  });
  EXPECT_TRUE(left_failed(outcome, {{1, Errc::work_failed}, {3, Errc::work_failed}}));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(*outcome.error().closure, Errc::malformed);
  const std::string text = to_string(outcome.error());
  EXPECT_NE(text.find("the closure: the closure: malformed"), std::string::npos) << text;
  EXPECT_NE(text.find("\npeer 3: "), std::string::npos) << text;
  EXPECT_GT(explain(outcome.error()).size(), text.size());
  EXPECT_TRUE(got(receiving, 6));
  EXPECT_TRUE(works(0));
  EXPECT_TRUE(works(2));
}

TEST_F(OverPeers, ExceptionGoesOnWhenEverythingIsOver) {
  auto receiving = accept(1);
  const auto body = [&](PeerScope& scope) {
    scope.post_detached(1, Send{piece(2)});
    scope.post_detached(3, failing_write());
    throw std::runtime_error{"on purpose"};
  };
  EXPECT_THROW(static_cast<void>(multi.scope(body)), std::runtime_error);
  EXPECT_EQ(multi[1].free_sends(), kDepth);
  EXPECT_TRUE(multi[3].is_over());
  EXPECT_TRUE(got(receiving, 2));
  EXPECT_TRUE(works(0));
}

TEST_F(OverPeers, ScopeThatWasLeftByAnExceptionLeavesNothingToTheNextAtItsPlace) {
  const auto leave = [&](PeerIndex failing, bool is_thrown) {
    return multi.scope([&](PeerScope& scope) {
      scope.post_detached(failing, failing_write());
      if (is_thrown) throw std::runtime_error{"on purpose"};
    });
  };
  for (const bool is_thrown : {true, false}) {
    if (is_thrown)
      EXPECT_THROW(static_cast<void>(leave(3, is_thrown)), std::runtime_error);
    else
      EXPECT_TRUE(left_failed(leave(1, is_thrown), {{1, Errc::work_failed}}));
  }
}

TEST_F(OverPeers, ManualScopeWantsItsHandlesBack) {
  const ThrowingContracts throwing;
  auto receiving = accept(1);
  EXPECT_THROW(static_cast<void>(multi.manual_scope(
                   [&](PeerScope& scope) { static_cast<void>(scope.post(1, Send{piece(2)})); })),
               ContractViolation);
  EXPECT_TRUE(got(receiving, 2));
  auto again = accept(1);
  EXPECT_TRUE(multi.manual_scope(
      [&](PeerScope& scope) { EXPECT_TRUE(succeeds(scope.wait(scope.post(1, Send{piece(3)})))); }));
  EXPECT_TRUE(got(again, 3));
}

TEST_F(OverPeers, PeersComeButDoNotGoInsideAScope) {
  EXPECT_TRUE(multi.scope([&](PeerScope& scope) {
    EXPECT_TRUE(fails_with(multi.remove(1), Errc::busy));
    const PeerIndex added = join();
    auto receiving = accept(added);
    EXPECT_TRUE(succeeds(scope.wait(scope.post(added, Send{piece(3)}))));
    EXPECT_TRUE(got(receiving, 3));
  }));
  EXPECT_TRUE(succeeds(multi.remove(1)));
}

TEST_F(OverPeers, BulkCallInsideAScopeIsApartFromIt) {
  auto receiving = accept_from_all();
  EXPECT_TRUE(multi.scope([&](PeerScope& scope) {
    const auto waiting = scope.post(0, Receive{place(0)});
    EXPECT_TRUE(succeeds(multi.multicast(all, Send{piece(4)})));
    EXPECT_TRUE(succeeds(far[0]->send(piece(9))));
    EXPECT_TRUE(succeeds(scope.wait(waiting)));
  }));
  for (auto& each : receiving) EXPECT_TRUE(got(each, 4));
  EXPECT_TRUE(came(0, 9));
}

}  // namespace
}  // namespace verbatim::test
