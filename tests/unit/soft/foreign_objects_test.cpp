// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: objects of two contexts do not mix; a key that is gone stays gone.
// Method: bare verbs: each object in turn belongs to another context. This is not in the
//         conformance suite, because libibverbs passes on numbers that mean something else in
//         another context.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "support/raw_verbs.hpp"

namespace verbatim::test {
namespace {

/// One of each object that a queue pair is made from.
struct Objects {
  raw::Owned<ibv_context> context = raw::open();
  raw::Owned<ibv_pd> domain = raw::domain(context.get());
  raw::Owned<ibv_cq> queue = raw::completion_queue(context.get());
  raw::Owned<ibv_srq> shared = raw::shared_receive_queue(domain.get());
};

class ForeignObjects : public testing::Test {
 protected:
  void expect_refused(const raw::QueuePairRecipe& recipe) {
    errno = 0;
    const raw::Owned<ibv_qp> made{raw::try_queue_pair(recipe)};
    EXPECT_FALSE(made);
    EXPECT_EQ(errno, EINVAL);
  }
  [[nodiscard]] raw::QueuePairRecipe sound() const {
    return {.domain = own_.domain.get(), .sends = own_.queue.get(), .receives = own_.queue.get()};
  }
  Objects own_;
  Objects other_;
};

TEST_F(ForeignObjects, NoneIsFine) { EXPECT_NE(raw::queue_pair(sound()), nullptr); }

TEST_F(ForeignObjects, CompletionQueueForSendsIsRefused) {
  raw::QueuePairRecipe recipe = sound();
  recipe.sends = other_.queue.get();
  expect_refused(recipe);
}

TEST_F(ForeignObjects, CompletionQueueForReceivesIsRefused) {
  raw::QueuePairRecipe recipe = sound();
  recipe.receives = other_.queue.get();
  expect_refused(recipe);
}

TEST_F(ForeignObjects, SharedReceiveQueueIsRefused) {
  raw::QueuePairRecipe recipe = sound();
  recipe.shared = other_.shared.get();
  expect_refused(recipe);
}

TEST_F(ForeignObjects, DomainIsRefused) {
  raw::QueuePairRecipe recipe = sound();
  recipe.domain = other_.domain.get();
  expect_refused(recipe);
}

TEST_F(ForeignObjects, CompletionChannelIsRefused) {
  const raw::Owned<ibv_comp_channel> channel = raw::channel(other_.context.get());
  errno = 0;
  const raw::Owned<ibv_cq> made{
      raw::verbs().create_cq(own_.context.get(), 16, nullptr, channel.get(), 0)};
  EXPECT_FALSE(made);
  EXPECT_TRUE(errno == EINVAL || errno == EBADF) << errno;
}

// A peer that still holds an old key must not reach memory that is registered later.
TEST(RegionKey, IsNotGivenOutTwice) {
  constexpr std::size_t kRegistrations = 300'000;
  const Objects objects;
  std::vector<std::byte> memory(4096);
  std::vector<std::uint32_t> keys;
  keys.reserve(kRegistrations);
  while (keys.size() < kRegistrations) {
    const raw::Owned<ibv_mr> region = raw::region(objects.domain.get(), memory);
    keys.push_back(region->rkey);
  }
  const std::uint32_t first = keys.front();
  const auto again = std::ranges::find(keys.begin() + 1, keys.end(), first);
  EXPECT_EQ(again, keys.end()) << "the first key is valid again after " << again - keys.begin()
                               << " registrations";
  std::ranges::sort(keys);
  EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
}

}  // namespace
}  // namespace verbatim::test
