// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in steady state no form of an operation allocates, and a wait whose completion is there
//       reads no clock.
// Method: this program counts operator new and reads of the monotonic clock; a scripted device
//         completes in any order.
// Covers: channel/patience.cpp
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "support/scripted_device.hpp"
#include "unit/channel/counters.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// On the null device itself, which completes sends inside the post.
class Allocations : public NullDevice {
 protected:
  /// What `round` allocates after it has run often enough to have what it needs.
  template <class Round>
  [[nodiscard]] static long in_steady_state(Round round) {
    for (int i = 0; i < 3; ++i) round();
    const long before = allocations();
    for (int i = 0; i < 100; ++i) round();
    return allocations() - before;
  }
  [[nodiscard]] Channel connect(ChannelOptions options = {}) {
    options.flush_timeout = 1ms;  // This device never returns receives or markers.
    auto prepared = require(PreparedChannel::create(domain(), options));
    const Endpoint self = prepared.endpoint();
    return require(std::move(prepared).connect(self));
  }
  [[nodiscard]] const ProtectionDomain& domain() {
    if (!domain_) domain_ = require(open().allocate_domain());
    return *domain_;
  }
  void TearDown() override {
    domain_.reset();
    NullDevice::TearDown();
  }

 private:
  std::optional<ProtectionDomain> domain_;
};

TEST_F(Allocations, AreCountedAtAll) {
  EXPECT_GE(in_steady_state([] { std::vector<int>(100).back() = 1; }), 100);
}

TEST_F(Allocations, NoneInABlockingCall) {
  Channel channel = connect();
  Buffer buffer = require(domain().allocate(64));
  EXPECT_EQ(in_steady_state([&] { EXPECT_TRUE(channel.send(buffer.gather()).has_value()); }), 0);
}

TEST_F(Allocations, NoneInAnOwnedOperation) {
  Channel channel = connect();
  Buffer buffer = require(domain().allocate(64));
  EXPECT_EQ(in_steady_state([&] {
              auto done = channel.send(std::move(buffer)).wait();
              EXPECT_TRUE(done.result.has_value());
              buffer = std::move(done.buffer);
            }),
            0);
}

TEST_F(Allocations, NoneWithoutAScope) {
  Channel channel = connect();
  Buffer buffer = require(domain().allocate(64));
  EXPECT_EQ(in_steady_state([&] {
              EXPECT_TRUE(unsafe::post(channel, Send{buffer.gather()}).wait().has_value());
              {
                const auto dropped = unsafe::post(channel, Send{buffer.gather()});
              }
              EXPECT_TRUE(channel.poll().has_value());
            }),
            0);
}

TEST_F(Allocations, NoneForADroppedHandle) {
  Channel channel = connect();
  std::vector<Buffer> buffers;
  for (int i = 0; i < 200; ++i) buffers.push_back(require(domain().allocate(64)));
  EXPECT_EQ(in_steady_state([&] {
              {
                const auto dropped = channel.send(std::move(buffers.back()));
              }
              buffers.pop_back();
              EXPECT_TRUE(channel.poll().has_value());
            }),
            0);
}

TEST_F(Allocations, NoneInAScope) {
  Channel channel = connect();
  Buffer buffer = require(domain().allocate(64));
  EXPECT_EQ(in_steady_state([&] {
              const auto outcome = channel.scope([&](Scope& scope) {
                const std::array all{scope.post(Send{buffer.gather()}),
                                     scope.post(Send{buffer.gather()})};
                EXPECT_TRUE(scope.wait(scope.post(Send{buffer.gather()})).has_value());
                EXPECT_TRUE(scope.wait_any(all).has_value());
                EXPECT_TRUE(scope.wait_all(all).has_value());
                static_cast<void>(scope.post(Send{buffer.gather()}));
              });
              EXPECT_TRUE(outcome.has_value());
            }),
            0);
}

TEST_F(Allocations, NoneInDetachedPostsAlsoWhenTheQueueIsFull) {
  Channel channel = connect({.max_sends = 4});
  Buffer buffer = require(domain().allocate(64));
  EXPECT_EQ(in_steady_state([&] {
              const auto outcome = channel.scope([&](Scope& scope) {
                for (int i = 0; i < 16; ++i) scope.post_detached(Send{buffer.gather()});
              });
              EXPECT_TRUE(outcome.has_value());
            }),
            0);
}

TEST_F(Allocations, NoneInABatch) {
  Channel channel = connect();
  Buffer buffer = require(domain().allocate(64));
  const std::vector<Send<1>> works(16, Send{buffer.gather()});
  EXPECT_EQ(in_steady_state([&] {
              const auto outcome = channel.scope([&](Scope& scope) {
                EXPECT_TRUE(scope.wait(scope.post(std::span{works})).has_value());
              });
              EXPECT_TRUE(outcome.has_value());
            }),
            0);
}

TEST_F(Allocations, NoneForARefusedPost) {
  Channel channel = connect({.max_sends = 1});
  Buffer first = require(domain().allocate(64));
  Buffer second = require(domain().allocate(64));
  auto sending = channel.send(std::move(first));
  EXPECT_EQ(in_steady_state([&] {
              auto done = channel.send(std::move(second)).wait();
              EXPECT_TRUE(fails_with(done.result, Errc::would_block));
              second = std::move(done.buffer);
            }),
            0);
  EXPECT_TRUE(sending.wait().result.has_value());
}

class ClockReads : public ScriptedDevice {
 protected:
  template <class Step>
  [[nodiscard]] static long of(Step step) {
    const long before = clock_reads();
    step();
    return clock_reads() - before;
  }
};

TEST_F(ClockReads, NoneWhenTheFirstPollBringsIt) {
  open_channel();
  auto sending = channel().send(buffer());
  script.complete(script.sends[0].id);
  EXPECT_EQ(of([&] { EXPECT_TRUE(sending.wait().result.has_value()); }), 0);
}

TEST_F(ClockReads, NoneWhileThePollsBringOthers) {
  open_channel();
  std::vector<Pending<Buffer>> sending;
  for (int i = 0; i < 40; ++i) sending.push_back(channel().send(buffer()));
  script.complete_all(script.sends);  // Three polls of 16.
  EXPECT_EQ(of([&] { EXPECT_TRUE(sending.back().wait().result.has_value()); }), 0);
  sending.pop_back();
  EXPECT_EQ(of([&] {
              for (auto& each : sending) EXPECT_TRUE(each.wait().result.has_value());
            }),
            0);
}

TEST_F(ClockReads, NoneInWaitAnyAndWaitAllWhileThePollsBringSomething) {
  open_channel();
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    std::vector<Operation> all;
    for (int i = 0; i < 40; ++i) all.push_back(scope.post(Send{memory.gather()}));
    script.complete_all(script.sends);
    EXPECT_EQ(of([&] {
                EXPECT_EQ(require(scope.wait_any(std::span{all}.subspan(39))), 0u);
                EXPECT_TRUE(succeeds(scope.wait_all(all)));
              }),
              0);
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ClockReads, NoneInAScopesEndAndInDetachedPostsWhileThePollsBringSomething) {
  open_channel({.max_sends = 4});
  Buffer memory = buffer();
  EXPECT_EQ(of([&] {
              const auto outcome = channel().scope([&](Scope& scope) {
                for (int i = 0; i < 4; ++i) scope.post_detached(Send{memory.gather()});
                script.complete_all(script.sends);
                scope.post_detached(Send{memory.gather()});
                script.complete(script.sends.back().id);
              });
              EXPECT_TRUE(outcome.has_value());
            }),
            0);
}

TEST_F(ClockReads, TheTimeStartsAtTheFirstEmptyPoll) {
  open_channel();
  auto sending = channel().send(buffer());
  script.empty_polls = 3;
  script.complete(script.sends[0].id);
  EXPECT_GE(of([&] { EXPECT_TRUE(sending.wait(10s).result.has_value()); }), 1);
}

}  // namespace
}  // namespace verbatim::test
