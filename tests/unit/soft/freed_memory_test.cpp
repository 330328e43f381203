// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that was deregistered belongs to the program alone: whatever is polled afterwards,
//       by whichever thread, nothing is written to it, nor to what took its place.
// Method: messages of each kind (in the completion, in the ring, placed) arrive for receives whose
//         memory is then taken back before anything is polled; several queue pairs on one
//         completion queue; Buffers, which are unmapped, in separate processes.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <optional>
#include <thread>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "survival/contained.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 8192;
constexpr std::byte kSent{0x66};
constexpr std::byte kMine{0x11};

/// This many connected pairs, whose receivers share one completion queue.
class SharedQueue {
 public:
  explicit SharedQueue(std::size_t pairs) {
    std::ranges::fill(source_.bytes(), kSent);
    for (std::size_t i = 0; i < pairs; ++i)
      pairs_.push_back(ConnectedPair{
          domain, {.both = [this](QueuePairOptions& each) { each.receive_completions = queue; }}});
  }
  void post(std::size_t pair, ScatterElement into) {
    pairs_[pair].remote.post(Receive{std::move(into)}, pair);
  }
  void send(std::size_t pair, std::size_t bytes) {
    pairs_[pair].local.post(Send{source_.gather(0, bytes)}, pair);
    poll_ok(pairs_[pair].local.sends);
  }
  /// Takes everything that has come, good or bad.
  unsigned poll() {
    unsigned count = 0;
    while (poll_within(queue, 0s)) ++count;
    return count;
  }
  void drop_queue_pairs() { pairs_.clear(); }

  ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context(), 4096);

 private:
  Buffer source_ = require(domain.allocate(kBytes));
  std::vector<ConnectedPair> pairs_;
};

/// Parameter: bytes of a message.
class FreedMemory : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t kPairs = 8;
};

// What came before the end of the registration may be there, or not; afterwards nothing comes.
TEST_P(FreedMemory, OfOrdinaryKindIsNotWrittenByALaterPoll) {
  SharedQueue all{kPairs};
  std::array<std::vector<std::byte>, kPairs> memory;
  std::vector<std::optional<MemoryRegion>> regions(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) {
    memory[i].resize(kBytes);
    regions[i].emplace(require(all.domain.register_local(memory[i])));
    all.post(i, regions[i]->scatter(memory[i]));
    all.send(i, GetParam());
  }
  // The last one is not taken back, to show that the messages were real.
  for (std::size_t i = 0; i + 1 < kPairs; ++i) {
    regions[i].reset();
    std::ranges::fill(memory[i], kMine);
  }
  static_cast<void>(all.poll());
  for (std::size_t i = 0; i + 1 < kPairs; ++i) EXPECT_TRUE(all_equal(memory[i], kMine)) << i;
  EXPECT_TRUE(all_equal(std::span{memory[kPairs - 1]}.first(GetParam()), kSent));
}

TEST_P(FreedMemory, TakenBackInAnotherThreadIsNotWritten) {
  SharedQueue all{kPairs};
  std::array<std::vector<std::byte>, kPairs> memory;
  for (std::vector<std::byte>& each : memory) each.resize(kBytes);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::optional<MemoryRegion>> regions(kPairs);
    for (std::size_t i = 0; i < kPairs; ++i) {
      regions[i].emplace(require(all.domain.register_local(memory[i])));
      all.post(i, regions[i]->scatter(memory[i]));
      all.send(i, GetParam());
    }
    std::barrier start{2};
    std::jthread other{[&] {
      start.arrive_and_wait();
      for (std::size_t i = 0; i < kPairs; ++i) {
        regions[i].reset();
        std::ranges::fill(memory[i], kMine);
      }
    }};
    start.arrive_and_wait();
    unsigned came = all.poll();
    other.join();
    came += all.poll();
    EXPECT_EQ(came, kPairs) << "each receive completes once";
    for (std::size_t i = 0; i < kPairs; ++i)
      ASSERT_TRUE(all_equal(memory[i], kMine)) << "round " << round << ", queue pair " << i;
  }
}

TEST_P(FreedMemory, OfBuffersThatDieBeforeTheirQueuePairsIsNotTouched) {
  VERBATIM_CONTAINED(60s, [] {
    for (const bool polls_first : {true, false}) {
      SharedQueue all{kPairs};
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < kPairs; ++i) {
        buffers.push_back(require(all.domain.allocate(kBytes)));
        all.post(i, buffers[i].scatter());
        all.send(i, GetParam());
      }
      // Every other one; the rest is still valid. Then other memory takes their place.
      for (std::size_t i = 0; i < kPairs; i += 2) {
        {
          const Buffer gone = std::move(buffers[i]);
        }
        buffers[i] = require(all.domain.allocate(kBytes));
      }
      const unsigned came = polls_first ? all.poll() : kPairs;
      EXPECT_EQ(came, kPairs);
      for (std::size_t i = 0; i < kPairs; i += 2)
        EXPECT_TRUE(all_equal(buffers[i].bytes(), std::byte{0})) << i;
      for (std::size_t i = 1; polls_first && i < kPairs; i += 2)
        EXPECT_TRUE(all_equal(buffers[i].bytes().first(GetParam()), kSent)) << i;
      buffers.clear();
      all.drop_queue_pairs();
      static_cast<void>(all.poll());
    }
  });
}

TEST_P(FreedMemory, OfBuffersThatDieInAnotherThreadIsNotTouched) {
  VERBATIM_CONTAINED(60s, [] {
    SharedQueue all{kPairs};
    for (int round = 0; round < 50; ++round) {
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < kPairs; ++i) {
        buffers.push_back(require(all.domain.allocate(kBytes)));
        all.post(i, buffers[i].scatter());
        all.send(i, GetParam());
      }
      std::barrier start{2};
      std::jthread other{[&] {
        start.arrive_and_wait();
        buffers.clear();
      }};
      start.arrive_and_wait();
      unsigned came = all.poll();
      other.join();
      came += all.poll();
      ASSERT_EQ(came, kPairs) << "each receive completes once";
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Bytes, FreedMemory, testing::Values(24, 200, 5000),
                         [](const auto& each) { return std::to_string(each.param); });

}  // namespace
}  // namespace verbatim::test
