// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the model knows what is in flight, forgets it again, and names both sides of a conflict.
// Method: the hooks with plain memory and no device. tests/misuse shows what each sanitizer does
//         with them; here nobody touches memory in flight.
#include "verbatim/base/dma_model.hpp"

#include <gtest/gtest.h>

#include <array>
#include <source_location>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#if VERBATIM_DMA_MODELLED

#include "base/dma_operation.hpp"

namespace verbatim::dma {
namespace {

static_assert(kModelled);
static_assert(!std::is_copy_constructible_v<Queue> && !std::is_move_constructible_v<Queue>);
static_assert(!std::is_copy_constructible_v<Flight> && !std::is_copy_assignable_v<Flight>);
static_assert(std::is_nothrow_move_constructible_v<Flight>);

constexpr auto kReads = Direction::device_reads;
constexpr auto kWrites = Direction::device_writes;

class DmaModel : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[nodiscard]] Range part(std::size_t offset, std::size_t size) const {
    return {memory_.data() + offset, size};
  }
  void post(Flight& flight, Direction direction, std::vector<Range> ranges,
            const std::source_location& where = std::source_location::current()) {
    posted(queue_, flight, direction, ranges, where);
  }
  [[nodiscard]] bool owned(std::size_t offset) const {
    return detail::find_in_flight(memory_.data() + offset, 1) != nullptr;
  }

  alignas(64) std::array<std::byte, 4096> memory_{};
  Queue queue_{"test"};
};
using DmaModelDeathTest = DmaModel;

TEST_F(DmaModel, OwnsWhatIsInFlight) {
  Flight flight;
  post(flight, kWrites, {part(64, 64), part(256, 8)});
  EXPECT_TRUE(owned(64) && owned(127) && owned(256) && owned(263));
  EXPECT_FALSE(owned(63) || owned(128) || owned(255) || owned(264));
  EXPECT_TRUE(detail::anything_in_flight());
  completed(flight, 72);
  EXPECT_FALSE(owned(64) || owned(256));
  EXPECT_FALSE(detail::anything_in_flight());
}

TEST_F(DmaModel, LetsAFlightBeUsedAgain) {
  Flight flight;
  for (std::size_t i = 0; i < 1000; ++i) {
    const Direction direction = i % 2 == 0 ? kReads : kWrites;
    post(flight, direction, {part(i, 32)});
    EXPECT_TRUE(owned(i));
    completed(flight, 32);
    EXPECT_FALSE(owned(i));
  }
}

TEST_F(DmaModel, GivesBackWhatWasWithdrawn) {
  Flight refused;
  Flight next;
  post(refused, kWrites, {part(0, 128)});
  withdrawn(refused);
  EXPECT_FALSE(owned(0));
  post(next, kWrites, {part(0, 128)});
  completed(next, 128);
}

TEST_F(DmaModel, GivesBackWhatADeadFlightHeld) {
  {
    Flight dead;
    post(dead, kWrites, {part(0, 128)});
    EXPECT_TRUE(owned(0));
  }
  EXPECT_FALSE(owned(0));
}

TEST_F(DmaModel, MovesAFlightWithItsOperation) {
  Flight first;
  post(first, kWrites, {part(0, 64)});
  Flight second{std::move(first)};
  EXPECT_TRUE(owned(0));
  Flight third;
  post(third, kWrites, {part(64, 64)});
  third = std::move(second);
  EXPECT_TRUE(owned(0));
  EXPECT_FALSE(owned(64));
  completed(third, 64);
  EXPECT_FALSE(owned(0));
}

TEST_F(DmaModel, LetsReadersShare) {
  Flight first;
  Flight second;
  post(first, kReads, {part(0, 128), part(0, 128)});
  post(second, kReads, {part(64, 128)});
  completed(first, 0);
  EXPECT_TRUE(owned(64));
  EXPECT_FALSE(owned(63));
  completed(second, 0);
}

TEST_F(DmaModel, IgnoresEmptyRanges) {
  Flight holder;
  Flight empty;
  post(holder, kWrites, {part(0, 128)});
  const std::vector<Range> ranges(40, part(64, 0));
  post(empty, kWrites, ranges);
  completed(empty, 0);
  post(empty, kReads, {});
  completed(empty, 0);
  completed(holder, 128);
}

/// Only the memory connects the threads, so the lock of the model has to work.
TEST_F(DmaModel, ServesThreadsAtOnce) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 16;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([this, t] {
      std::array<Flight, kEach> flights;
      for (int round = 0; round < 200; ++round) {
        for (std::size_t i = 0; i < kEach; ++i)
          post(flights[i], kWrites, {part((t * kEach + i) * 64, 64)});
        for (std::size_t i = 0; i < kEach; ++i) completed(flights[kEach - 1 - i], 64);
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_FALSE(detail::anything_in_flight());
}

/// "file:line", as in a report.
std::string place(const std::source_location& where) {
  return "dma_model_test\\.cpp:" + std::to_string(where.line());
}

TEST_F(DmaModelDeathTest, OverlapNamesBothPosts) {
  Flight first;
  Flight second;
  const auto here = std::source_location::current();
  const auto there = std::source_location::current();
  post(first, kReads, {part(0, 128)}, there);
  EXPECT_DEATH(post(second, kWrites, {part(96, 64)}, here),
               "misuse: buffer overlaps an operation in flight: the device writes 64 bytes at "
               "0x[0-9a-f]+, posted at .*" +
                   place(here) + ", and still reads 128 bytes at 0x[0-9a-f]+, posted at .*" +
                   place(there) + "; they share \\(value 32, limit 0\\)");
  completed(first, 0);
}

TEST_F(DmaModelDeathTest, OverlapAtTheLastByteCounts) {
  Flight first;
  Flight second;
  post(first, kWrites, {part(0, 128)});
  EXPECT_DEATH(post(second, kReads, {part(127, 64)}), "reads 64 .* still writes 128 .*value 1,");
  post(second, kReads, {part(128, 64)});
  completed(second, 0);
  completed(first, 128);
}

TEST_F(DmaModelDeathTest, OneReceiveMustNotOverlapItself) {
  Flight flight;
  EXPECT_DEATH(post(flight, kWrites, {part(0, 128), part(64, 8)}), "overlaps an operation");
}

TEST_F(DmaModelDeathTest, FlightsTakeTurns) {
  Flight flight;
  EXPECT_DEATH(completed(flight, 0), "a Flight lands once after each post");
  EXPECT_DEATH(withdrawn(flight), "a Flight lands once after each post");
  post(flight, kReads, {part(0, 8)});
  EXPECT_DEATH(post(flight, kReads, {part(8, 8)}), "posted once until it completes");
  completed(flight, 0);
  EXPECT_DEATH(completed(flight, 0), "a Flight lands once after each post");
}

TEST_F(DmaModelDeathTest, RefusesMoreRangesThanItCanKeep) {
  Flight flight;
  std::vector<Range> ranges(kMaxRanges, part(0, 8));
  post(flight, kReads, ranges);
  completed(flight, 0);
  ranges.push_back(part(8, 8));
  EXPECT_DEATH(post(flight, kReads, ranges), "at most 32 ranges");
}

TEST_F(DmaModelDeathTest, ModifiedSendBufferNamesThePost) {
  if (!VERBATIM_IS_CHECKED) GTEST_SKIP() << "the checksum is part of VERBATIM_CHECKED";
  Flight flight;
  const auto where = std::source_location::current();
  post(flight, kReads, {part(0, 64), part(256, 100)}, where);
  memory_[255] = memory_[356] = memory_[64] = std::byte{1};  // Beside the ranges.
  EXPECT_DEATH(
      {
        memory_[355] = std::byte{1};
        completed(flight, 0);
      },
      "misuse: send buffer was modified while the device was reading it: 100 bytes at "
      "0x[0-9a-f]+, posted at .*" +
          place(where) + "; element \\(value 1, limit 2\\)");
  completed(flight, 0);
}

TEST_F(DmaModel, ForgetsTheChecksumOfAWithdrawnSend) {
  if (!VERBATIM_IS_CHECKED) GTEST_SKIP() << "the checksum is part of VERBATIM_CHECKED";
  Flight flight;
  post(flight, kReads, {part(0, 64)});
  memory_[0] = std::byte{1};
  withdrawn(flight);
  post(flight, kWrites, {part(0, 64)});
  completed(flight, 0);  // The device wrote it, so its content does not matter.
}

}  // namespace
}  // namespace verbatim::dma

#endif
