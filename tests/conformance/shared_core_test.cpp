// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: several channels share one completion queue and one slab: each poll files for all of them,
//       each has its own credit, slots that one leaves can be used by the next, and the end of one
//       can be stepped while the others continue.
// Covers: channel/completion_core.cpp, channel/prepared_channel.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "channel/channel_state.hpp"
#include "channel/prepare_on.hpp"
#include "support/device_under_test.hpp"
#include "support/require.hpp"

namespace verbatim::test {
namespace {

using detail::SlotState;
using detail::Ticket;

/// A channel without its public interface. Like a Channel, it is gone when it is destroyed.
class CoreSide {
 public:
  explicit CoreSide(detail::ChannelState* state) : state_(state) {}
  CoreSide(CoreSide&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  CoreSide& operator=(CoreSide&&) = delete;
  ~CoreSide() {
    if (state_ != nullptr) state_->abandon();
  }
  detail::ChannelState* operator->() const { return state_; }

  void connect(const Endpoint& peer) {
    state_->queue_pair.emplace(require(std::move(*state_->prepared).connect(peer)));
    state_->limits = detail::Raw::limits(*state_->queue_pair);
    state_->prepared.reset();
    state_->end_of_message.store(state_->limits.end_of_message);
  }
  // Messages without bytes.
  [[nodiscard]] Ticket send() const {
    return state_->post(Send{}, {SlotState::flying, std::source_location::current()});
  }
  [[nodiscard]] Ticket receive() const {
    return state_->post(Receive{}, {SlotState::flying, std::source_location::current()});
  }
  [[nodiscard]] bool wait(Ticket ticket) const {
    return state_->await(*ticket.slot, ticket.id, std::chrono::seconds{10},
                         detail::Memory::borrowed);
  }

 private:
  detail::ChannelState* state_;
};

class SharedCore : public testing::Test {
 protected:
  static constexpr detail::Depths kDepths{.sends = 3, .receives = 3};

  [[nodiscard]] Result<CoreSide> side() {
    const auto made = detail::prepare_on(core, domain, {}, kDepths);
    if (!made) return std::unexpected(made.error());
    return CoreSide{*made};
  }
  [[nodiscard]] std::pair<CoreSide, CoreSide> pair() {
    CoreSide left = require(side());
    CoreSide right = require(side());
    const Endpoint to_right = right->prepared->endpoint();
    right.connect(left->prepared->endpoint());
    left.connect(to_right);
    return {std::move(left), std::move(right)};
  }
  /// One message; both results come with any poll.
  void exchange(const CoreSide& from, const CoreSide& to) {
    const Ticket receiving = to.receive();
    const Ticket sending = from.send();
    EXPECT_TRUE(from.wait(sending));
    EXPECT_TRUE(to.wait(receiving));
  }

  ProtectionDomain domain = require(open_context().allocate_domain());
  std::shared_ptr<detail::CompletionCore> core =
      require(detail::CompletionCore::create(domain.context(), 256, 64));
};

TEST_F(SharedCore, WhoPollsFilesForEverybody) {
  const auto [left, right] = pair();
  const auto [stranger, other] = pair();
  const Ticket receiving = right.receive();
  const Ticket sending = left.send();
  const auto both = [&] {
    return receiving.slot->state == SlotState::done && sending.slot->state == SlotState::done;
  };
  detail::Patience patience{*stranger.operator->(), std::chrono::seconds{10}};
  EXPECT_TRUE(stranger->wait_until(both, patience));
  Completion completion;
  EXPECT_TRUE(left->arrived(*sending.slot, sending.id, completion));
  EXPECT_TRUE(right->arrived(*receiving.slot, receiving.id, completion));
}

TEST_F(SharedCore, EachHasItsOwnCredit) {
  const auto [left, right] = pair();
  std::vector<Ticket> receiving;
  for (int i = 0; i < 3; ++i) receiving.push_back(right.receive());
  EXPECT_TRUE(right.receive().refused());
  EXPECT_FALSE(receiving.back().refused());
  const Ticket own = left.receive();
  EXPECT_FALSE(own.refused());
  for (const Ticket& each : receiving) {
    EXPECT_TRUE(left.wait(left.send()));
    EXPECT_TRUE(right.wait(each));
  }
  left->expire({.code = Errc::cancelled, .operation = "test"});
  EXPECT_FALSE(left.wait(own));
}

TEST_F(SharedCore, OnlyTheChannelThatFailsEnds) {
  const auto [left, right] = pair();
  const auto [one, two] = pair();
  left->expire({.code = Errc::cancelled, .operation = "test"});
  EXPECT_TRUE(left->cause);
  EXPECT_TRUE(left.send().refused());
  EXPECT_FALSE(one->cause);
  exchange(one, two);
  exchange(two, one);
}

TEST_F(SharedCore, SlotsAndPlacesComeBackWhileTheQueueIsBusy) {
  const auto [left, right] = pair();
  // 64 slots are eight channels, and 256 entries are 32 queue pairs. Many more come and go. Because
  // the queue always holds a message, it is never found empty.
  for (int i = 0; i < 40; ++i) {
    const Ticket receiving = right.receive();
    const Ticket sending = left.send();
    {
      const auto [one, two] = pair();
      exchange(one, two);
    }
    ASSERT_TRUE(left.wait(sending)) << i;
    ASSERT_TRUE(right.wait(receiving)) << i;
  }
}

TEST_F(SharedCore, FullCoreRefusesTheNextChannel) {
  std::vector<CoreSide> sides;
  for (int i = 0; i < 8; ++i) sides.push_back(require(side()));
  EXPECT_TRUE(fails_with(side(), Errc::limit_exceeded));
  sides.pop_back();
  EXPECT_TRUE(succeeds(side()));
}

TEST_F(SharedCore, EndIsSteppedWhileOthersGoOn) {
  const auto [left, right] = pair();
  const auto [one, two] = pair();
  const Ticket receiving = left.receive();
  left->begin_end({.code = Errc::cancelled, .operation = "test"});
  EXPECT_TRUE(left->cause);
  EXPECT_EQ(left->ending.stage, detail::Ending::Stage::flushing);
  EXPECT_TRUE(left.send().refused());  // The marker would not cover it.
  EXPECT_TRUE(left.receive().refused());
  detail::Patience patience{*one.operator->(), std::chrono::seconds{10}};
  const auto has_ended = [&] { return left->step({}); };
  EXPECT_TRUE(one->wait_until(has_ended, patience));
  EXPECT_TRUE(left->ending.proven);
  EXPECT_FALSE(left->ending.destroyed);
  EXPECT_EQ(receiving.slot->state, SlotState::parked);
  EXPECT_FALSE(left.wait(receiving));
  EXPECT_EQ(detail::last_result.error.code, Errc::cancelled);
  exchange(one, two);
}

TEST_F(SharedCore, EndThatTakesTooLongIsForced) {
  const auto [left, right] = pair();
  left->begin_end({.code = Errc::cancelled, .operation = "test"});
  EXPECT_FALSE(left->step(left->next_deadline() - std::chrono::nanoseconds{1}));
  EXPECT_TRUE(left->step(left->next_deadline()));  // Nobody has polled the markers.
  EXPECT_TRUE(left->ending.destroyed);
  EXPECT_TRUE(left->ending.proven);
}

}  // namespace
}  // namespace verbatim::test
