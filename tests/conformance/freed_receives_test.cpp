// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that was deregistered is not written any more, even if another thread polls the
//       completions of its receives at that moment.
// Method: many messages of another process wait to be polled. Then one thread polls them, and
//         another takes the memory of their receives back, one after the other: it deregisters the
//         memory, and writes to it or unmaps it.
// Covers: soft/shared_ring.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>
#include <ostream>
#include <thread>
#include <vector>

#include "conformance/raw_peer.hpp"
#include "support/contained.hpp"
#include "support/pattern.hpp"

namespace verbatim::test {
namespace {

constexpr std::byte kArrived{0x66};
constexpr std::byte kTakenBack{0x11};
constexpr unsigned kQueuePairs = 4;
constexpr unsigned kOfEach = 8;
constexpr unsigned kReceives = kQueuePairs * kOfEach;

enum class End : std::uint8_t {
  plain_reused,   ///< Memory of this process, used for something else.
  buffer_reused,  ///< Memory of a Buffer, which peers may map.
  plain_unmapped,
  buffer_unmapped,
};

struct FreedCase {
  End end;
  std::uint32_t bytes;

  [[nodiscard]] bool is_buffer() const {
    return end == End::buffer_reused || end == End::buffer_unmapped;
  }
  [[nodiscard]] bool unmaps() const {
    return end == End::plain_unmapped || end == End::buffer_unmapped;
  }
};
void PrintTo(const FreedCase& which, std::ostream* out) {
  *out << (which.is_buffer() ? "Buffer" : "Plain") << (which.unmaps() ? "Unmapped" : "Reused")
       << which.bytes;
}

/// A receive with its own memory.
struct FreedReceive {
  FreedReceive(const FreedCase& which, const Watched& side)
      : memory(which.unmaps() ? raw::kOwnMappingBytes : 4096,
               which.is_buffer() ? side.context.get() : nullptr),
        region(side.expose(memory.bytes())) {}

  raw::Mapping memory;
  raw::Owned<ibv_mr> region;
};

class FreedReceives : public testing::TestWithParam<FreedCase> {
 protected:
  using All = std::vector<std::unique_ptr<FreedReceive>>;

  /// As many receives as messages, none of which was polled.
  static All deliver(const Watched& side) {
    All all;
    for (unsigned i = 0; i < kReceives; ++i) {
      const unsigned through = i % kQueuePairs;
      all.push_back(std::make_unique<FreedReceive>(GetParam(), side));
      const raw::Piece into = raw::local(all.back()->region.get(), 0, GetParam().bytes);
      EXPECT_EQ(raw::post_receive(side.queue_pair(through), i, into), 0);
      EXPECT_EQ(side.peer
                    ->execute({.queue_pair = static_cast<std::uint8_t>(through),
                               .fill = kArrived,
                               .bytes = GetParam().bytes})
                    .status,
                IBV_WC_SUCCESS);
    }
    return all;
  }

  static void take_back(FreedReceive& receive) {
    receive.region.reset();
    EXPECT_TRUE(all_equal(receive.memory.bytes().first(GetParam().bytes), kArrived))
        << "the peer was told that the message had arrived";
    if (GetParam().unmaps())
      receive.memory.unmap();
    else
      receive.memory.fill(kTakenBack);
  }

  /// Polls until each receive has completed once.
  static void poll_all(const Watched& side) {
    std::array<unsigned, kReceives> seen{};
    for (unsigned count = 0; count < kReceives; ++count)
      ++seen.at(raw::poll_ok(side.queue.get()).wr_id);
    EXPECT_TRUE(std::ranges::all_of(seen, [](unsigned each) { return each == 1; }));
  }

  static void run_rounds(unsigned rounds) {
    const Watched side({.peer = Place::other_process, .queue_pairs = kQueuePairs});
    for (unsigned round = 0; round < rounds; ++round) {
      All all = deliver(side);
      // From both ends, because the polling thread goes from the first message to the last.
      if (round % 2 != 0) std::ranges::reverse(all);
      std::barrier start{2};
      std::jthread other{[&] {
        start.arrive_and_wait();
        for (const auto& each : all) take_back(*each);
      }};
      start.arrive_and_wait();
      poll_all(side);
      other.join();
      for (const auto& each : all)
        ASSERT_TRUE(all_equal(each->memory.bytes(), kTakenBack)) << "round " << round;
    }
  }
};

TEST_P(FreedReceives, AreNotWrittenByAThreadThatPolls) {
  // Writes to unmapped memory crash. (No bytes are left of it, so none differs.)
  contained([] { run_rounds(50 * stress_factor()); });
}

INSTANTIATE_TEST_SUITE_P(
    Ends, FreedReceives,
    testing::Values(FreedCase{End::plain_reused, 32}, FreedCase{End::plain_reused, 2000},
                    FreedCase{End::buffer_reused, 32}, FreedCase{End::buffer_reused, 2000},
                    FreedCase{End::plain_unmapped, 2000}, FreedCase{End::buffer_unmapped, 32},
                    FreedCase{End::buffer_unmapped, 2000}),
    testing::PrintToStringParamName());

}  // namespace
}  // namespace verbatim::test
