// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a receive that its sender never completed is in nobody's way.
// Method: the ring of a queue pair; the test takes and completes receives in place of senders.
#include "soft/responder/receive_ring.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "soft/completer/shared_ring.hpp"
#include "soft/requester/queue_pair.hpp"
#include "soft/shared/engine.hpp"
#include "support/connected_pair.hpp"

namespace verbatim::engine {
namespace {

class OwnReceives : public testing::Test {
 protected:
  static constexpr std::uint32_t kDepth = 4;

  OwnReceives() { EXPECT_TRUE(look_at(queue_pair_.engine->segment(), *queue_pair_.shared, view_)); }

  void post(std::uint64_t id) { pair_.remote.post(Receive{}, id); }
  /// Like a sender that is killed before it completes the receive.
  [[nodiscard]] std::uint32_t take() {
    TakenReceive taken;
    EXPECT_EQ(find_receive(view_, taken), Found::yes);
    view_.receives->taken.store(taken.number + 1);
    return taken.number;
  }
  /// Like a poll that has found its completion.
  void complete(std::uint32_t number) {
    OwnReceive& receive = queue_pair_.receives.own_at(number);
    receive.in_use = false;
    retire_receive(queue_pair_.receives);
    ids_.push_back(receive.id);
  }

  test::ConnectedPair pair_{
      {.remote = [](QueuePairOptions& options) { options.max_receive_requests = kDepth; }}};
  QueuePair& queue_pair_ = QueuePair::of(unsafe::native(pair_.remote.queue_pair));
  RingView view_;
  std::vector<std::uint64_t> ids_;
};

TEST_F(OwnReceives, BehindAPlaceThatIsStillInUseAreFound) {
  ASSERT_EQ(queue_pair_.receives.capacity, kDepth) << "so that the fifth meets the first";
  for (std::uint64_t id = 0; id < kDepth; ++id) post(id);
  const std::uint32_t lost = take();
  for (std::uint32_t i = 1; i < kDepth; ++i) complete(take());
  post(kDepth);
  post(kDepth + 1);
  complete(take());
  complete(take());
  EXPECT_EQ(ids_, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(queue_pair_.receives.own_at(lost).in_use) << "nobody has given it back";
}

}  // namespace
}  // namespace verbatim::engine
