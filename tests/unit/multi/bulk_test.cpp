// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a bulk call whose completions are there allocates nothing and reads no clock; it survives a
//       device without room, and reports nothing of earlier scopes.
// Method: this program counts operator new and reads of the clock; the null device completes sends
//         inside the post, a scripted one when the test says so.
// Covers: multi/bulk.cpp
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "channel/channel_state.hpp"
#include "support/scripted_device.hpp"
#include "unit/channel/counters.hpp"
#include "verbatim/multi/multi_channel.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// Peers that are connected to themselves.
struct World {
  explicit World(ProtectionDomain in, PeerIndex count)
      : domain(std::move(in)),
        reactor(require(Reactor::create(domain))),
        multi(reactor, domain,
              {.channel = {.max_sends = 4, .max_receives = 4, .flush_timeout = 1ms}}) {
    for (PeerIndex i = 0; i < count; ++i) {
      auto prepared = require(multi.prepare());
      const Endpoint self = prepared.endpoint();
      peers.push_back(require(multi.add(require(std::move(prepared).connect(self)))));
    }
  }
  ProtectionDomain domain;
  Reactor reactor;
  MultiChannel multi;
  std::vector<PeerIndex> peers{};
  Buffer buffer = require(domain.allocate(64));
};

class BulkCost : public NullDevice {
 protected:
  /// Checks that 100 rounds cost nothing after the first few.
  template <class Round>
  static void costs_nothing(Round round) {
    for (int i = 0; i < 3; ++i) round();
    const long allocated = allocations();
    const long looked = clock_reads();
    for (int i = 0; i < 100; ++i) round();
    EXPECT_EQ(allocations() - allocated, 0);
    EXPECT_EQ(clock_reads() - looked, 0);
  }
};

TEST_F(BulkCost, MulticastAndScatterAllocateNothingAndReadNoClock) {
  World world{require(open().allocate_domain()), 7};
  costs_nothing([&] {
    EXPECT_TRUE(world.multi.multicast(world.peers, Send{world.buffer.gather()}).has_value());
  });
  std::vector<PeerWork<Send<1>>> works;
  for (const PeerIndex peer : world.peers) works.push_back({peer, Send{world.buffer.gather()}});
  costs_nothing([&] { EXPECT_TRUE(world.multi.scatter(works).has_value()); });
}

TEST_F(BulkCost, GatherAllocatesNothingAndReadsNoClock) {
  World world{require(open().allocate_domain()), 3};
  std::vector<Buffer> buffers;
  std::vector<PeerWork<Read<1>>> works;
  for (const PeerIndex peer : world.peers) {
    buffers.push_back(require(world.domain.allocate(64)));
    works.push_back({peer, Read{buffers.back().scatter(), RemoteMemoryRegion{4096, 64, {}}}});
  }
  std::array<Completion, 3> out;
  costs_nothing([&] { EXPECT_TRUE(world.multi.gather(works, out).has_value()); });
}

TEST_F(BulkCost, ScopeOverPeersAllocatesNothing) {
  World world{require(open().allocate_domain()), 3};
  costs_nothing([&] {
    EXPECT_TRUE(world.multi.scope([&](PeerScope& scope) {
      for (const PeerIndex peer : world.peers)
        EXPECT_TRUE(scope.wait(scope.post(peer, Send{world.buffer.gather()})).has_value());
      scope.post_detached(0, Send{world.buffer.gather()});
      scope.post_detached(1, Send{world.buffer.gather()});
      scope.post_detached(2, Send{world.buffer.gather()});
    }));
  });
}

// ---- A scripted device --------------------------------------------------------------------------

class BulkScripted : public ScriptedDevice {};

TEST_F(BulkScripted, DeviceWithoutRoomIsTriedAgain) {
  static_cast<void>(prepare());  // Opens the device.
  World world{domain(), 2};
  script.send_refusal = ENOMEM;
  script.on_empty = [&] {
    script.send_refusal = 0;
    script.complete_all(script.sends);  // A second completion of a request is ignored.
  };
  EXPECT_TRUE(world.multi.multicast(world.peers, Send{world.buffer.gather()}).has_value());
  EXPECT_EQ(script.sends.size(), 2u);
  EXPECT_EQ(world.multi[0].free_sends(), 4u);
  EXPECT_EQ(world.multi[1].free_sends(), 4u);
}

TEST_F(BulkScripted, DeviceThatNeverHasRoomIsLate) {
  static_cast<void>(prepare());
  World world{domain(), 2};
  script.send_refusal = ENOMEM;
  const auto result = world.multi.multicast(world.peers, Send{world.buffer.gather()}, 5ms);
  ASSERT_FALSE(result.has_value());
  ASSERT_EQ(result.error().peers.size(), 2u);
  for (const PeerError& each : result.error().peers) EXPECT_EQ(each.code, Errc::timed_out);
}

TEST_F(BulkScripted, RefusedRequestIsThatPeersFailureOnly) {
  static_cast<void>(prepare());
  World world{domain(), 2};
  script.accepted_sends = 1;
  script.send_refusal = EINVAL;
  script.on_empty = [&] {
    if (!script.sends.empty() && script.completions.empty()) script.complete(script.sends[0].id);
  };
  const auto result = world.multi.multicast(world.peers, Send{world.buffer.gather()}, 30s);
  ASSERT_FALSE(result.has_value());
  ASSERT_EQ(result.error().peers.size(), 1u);
  EXPECT_EQ(result.error().peers[0].peer, 1u);
  EXPECT_EQ(result.error().peers[0].code, Errc::invalid_argument);
  EXPECT_FALSE(world.multi[0].cause());
  EXPECT_FALSE(world.multi[1].cause());
}

TEST_F(BulkScripted, FailureOfAFormerScopeAtTheSamePlaceIsNotTold) {
  static_cast<void>(prepare());
  World world{domain(), 1};
  detail::ChannelState& state =
      detail::whole(detail::ChannelAccess::core(world.multi[0], std::source_location::current()));
  alignas(detail::ScopeState) std::array<std::byte, sizeof(detail::ScopeState)> place{};
  auto* former = new (place.data()) detail::ScopeState{};
  state.ledger.record(*former, {{.code = Errc::malformed, .operation = "long ago"}});
  auto* const scope = new (place.data()) detail::ScopeState{{}, false, true};
  EXPECT_TRUE(detail::take_failures(state, *scope).empty());
  state.ledger.record(*scope, {{.code = Errc::cancelled, .operation = "now"}});
  const auto taken = detail::take_failures(state, *scope);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].code, Errc::cancelled);
}

}  // namespace
}  // namespace verbatim::test
