// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: atomics return the old value, change the word as promised, and are atomic with each other;
//       reads and atomics need what the connection agreed on.
// Method: known values; two queue pairs that count up the same word from two threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <vector>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

/// A word at the peer, and memory for the old value.
struct AtomicWord {
  explicit AtomicWord(const ProtectionDomain& domain, std::uint64_t value)
      : shared(require(domain.allocate_shared(64, Access::remote_atomic))),
        old(require(domain.allocate(64))),
        at(require(RemoteAtomic::at(shared.remote(), 8))) {
    shared.store_release(8, value);
  }
  [[nodiscard]] std::uint64_t value() const { return shared.load_acquire<std::uint64_t>(8); }
  [[nodiscard]] std::uint64_t old_value() {
    std::uint64_t result = 0;
    std::memcpy(&result, old.bytes().data(), sizeof result);
    return result;
  }
  SharedRegion shared;
  Buffer old;
  RemoteAtomic at;
};

class Atomics : public testing::Test {
  void SetUp() override {
    if (!capabilities().atomics) GTEST_SKIP() << "the device has no atomics";
  }
};

TEST_F(Atomics, FetchAddReturnsTheOldValueAndAdds) {
  ConnectedPair pair;
  AtomicWord word(pair.domain, 0x1122334455667788);
  pair.local.post(FetchAdd{word.old.scatter(0, 8), word.at, 5}, 1);
  const Completion done = poll_ok(pair.local.sends);
  EXPECT_EQ(done.opcode(), Opcode::fetch_add);
  EXPECT_EQ(done.byte_count(), 8u);
  EXPECT_EQ(word.old_value(), 0x1122334455667788u);
  EXPECT_EQ(word.value(), 0x112233445566778du);
}

TEST_F(Atomics, FetchAddWrapsAround) {
  ConnectedPair pair;
  AtomicWord word(pair.domain, ~std::uint64_t{0});
  pair.local.post(FetchAdd{word.old.scatter(0, 8), word.at, 2}, 1);
  poll_ok(pair.local.sends);
  EXPECT_EQ(word.old_value(), ~std::uint64_t{0});
  EXPECT_EQ(word.value(), 1u);
}

TEST_F(Atomics, CompareSwapSwapsWhenEqual) {
  ConnectedPair pair;
  AtomicWord word(pair.domain, 0x1122334455667788);
  pair.local.post(
      CompareSwap{word.old.scatter(0, 8), word.at, 0x1122334455667788, 0x99aabbccddeeff00}, 1);
  EXPECT_EQ(poll_ok(pair.local.sends).opcode(), Opcode::compare_swap);
  EXPECT_EQ(word.old_value(), 0x1122334455667788u);
  EXPECT_EQ(word.value(), 0x99aabbccddeeff00u);
}

TEST_F(Atomics, CompareSwapLeavesTheWordWhenNotEqual) {
  ConnectedPair pair;
  AtomicWord word(pair.domain, 7);
  pair.local.post(CompareSwap{word.old.scatter(0, 8), word.at, 8, 9}, 1);
  poll_ok(pair.local.sends);
  EXPECT_EQ(word.old_value(), 7u);
  EXPECT_EQ(word.value(), 7u);
}

TEST_F(Atomics, TouchOnlyTheirWord) {
  ConnectedPair pair;
  AtomicWord word(pair.domain, 1);
  word.shared.store_release(0, ~std::uint64_t{0});
  word.shared.store_release(16, ~std::uint64_t{0});
  pair.local.post(FetchAdd{word.old.scatter(8, 8), word.at, 1}, 1);
  poll_ok(pair.local.sends);
  EXPECT_EQ(word.shared.load_acquire<std::uint64_t>(0), ~std::uint64_t{0});
  EXPECT_EQ(word.shared.load_acquire<std::uint64_t>(16), ~std::uint64_t{0});
  EXPECT_TRUE(all_equal(word.old.bytes().first(8), std::byte{0}));
  EXPECT_TRUE(all_equal(word.old.bytes().subspan(16), std::byte{0}));
}

/// Adds 1 `times` times. Returns all old values, in the order of the requests.
std::vector<std::uint64_t> count_up(Side& side, const ProtectionDomain& domain,
                                    const RemoteAtomic& at, std::uint64_t times) {
  Buffer old = require(domain.allocate(8));
  std::vector<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < times; ++i) {
    side.post(FetchAdd{old.scatter(), at, 1}, i);
    poll_ok(side.sends);
    std::uint64_t value = 0;
    std::memcpy(&value, old.bytes().data(), sizeof value);
    seen.push_back(value);
  }
  return seen;
}

TEST_F(Atomics, OfTwoQueuePairsAreAtomicWithEachOther) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  ConnectedPair first(domain, {});
  ConnectedPair second(domain, {});
  AtomicWord word(domain, 0);
  const std::uint64_t times = 500 * stress_factor();
  auto other = std::async(std::launch::async,
                          [&] { return count_up(second.local, domain, word.at, times); });
  std::vector<std::uint64_t> seen = count_up(first.local, domain, word.at, times);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  const std::vector<std::uint64_t> theirs = other.get();
  EXPECT_TRUE(std::ranges::is_sorted(theirs));
  EXPECT_EQ(word.value(), 2 * times);
  // Every value from 0 to the sum was seen exactly once.
  seen.insert(seen.end(), theirs.begin(), theirs.end());
  std::ranges::sort(seen);
  for (std::uint64_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], i);
}

TEST_F(Atomics, OnAWordThatIsNotAlignedDoNotExist) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const SharedRegion region = require(domain.allocate_shared(64, Access::remote_atomic));
  EXPECT_TRUE(fails_with(RemoteAtomic::at(region.remote(), 4), Errc::invalid_argument));
  EXPECT_FALSE(RemoteAtomic::at(region.remote(), 64));
}

TEST_F(Atomics, NeedEightBytesForTheOldValue) {
  ConnectedPair pair;
  AtomicWord word(pair.domain, 0);
  const auto result =
      unsafe::post(pair.local.queue_pair, FetchAdd{word.old.scatter(0, 16), word.at, 1}, WrId{1});
  ASSERT_TRUE(fails_with(result, Errc::invalid_argument));
  EXPECT_EQ(result.error().value, 16u);
}

TEST_F(Atomics, WithoutTheRightAreDenied) {
  ConnectedPair pair;
  const SharedRegion target =
      require(pair.domain.allocate_shared(64, Access::remote_read | Access::remote_write));
  Buffer old = require(pair.domain.allocate(8));
  pair.local.post(FetchAdd{old.scatter(), require(RemoteAtomic::at(target.remote())), 1}, 1);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_access);
  EXPECT_EQ(target.load_acquire<std::uint64_t>(0), 0u);
}

TEST(ReadLimit, OfZeroMakesReadsAndAtomicsUnsupported) {
  ConnectedPair pair{{.remote = [](QueuePairOptions& options) { options.max_read_atomic = 0; }}};
  EXPECT_EQ(pair.local.queue_pair.agreement().max_read_atomic, 0);
  ExposedMemory source(pair.domain, 64, Access::remote_read);
  Buffer sink = require(pair.domain.allocate(64));
  const auto read =
      unsafe::post(pair.local.queue_pair, Read{sink.scatter(), source.remote()}, WrId{1});
  EXPECT_TRUE(fails_with(read, Errc::unsupported));
  const auto add = unsafe::post(
      pair.local.queue_pair,
      FetchAdd{sink.scatter(0, 8), require(RemoteAtomic::at(source.remote())), 1}, WrId{2});
  EXPECT_TRUE(fails_with(add, Errc::unsupported));
  exchange(pair);
}

TEST(ReadLimit, IsTheDevicesToKeep) {
  ConnectedPair pair{{.both = [](QueuePairOptions& options) { options.max_read_atomic = 1; }}};
  constexpr std::uint64_t kReads = 12;
  constexpr std::size_t kBytes = 5000;
  ExposedMemory source(pair.domain, kReads * kBytes, Access::remote_read);
  Buffer sink = require(pair.domain.allocate(kReads * kBytes));
  source.fill(test_seed());
  for (std::uint64_t i = 0; i < kReads; ++i)
    pair.local.post(Read{sink.scatter(i * kBytes, kBytes),
                         source.remote().sub_region(i * kBytes, kBytes).value()},
                    i);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, kReads), 0));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

}  // namespace
}  // namespace verbatim::test
