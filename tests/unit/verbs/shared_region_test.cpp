// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory for peers has the requested rights and no others, and the CPU accesses it word by
//       word, inside its bounds.
// Method: the null provider; a thread takes the place of a peer.
#include "verbatim/verbs/shared_region.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

static_assert(!std::is_copy_constructible_v<SharedRegion>);

class SharedRegionTest : public NullDevice {
 protected:
  SharedRegion make(std::size_t bytes, AccessFlags remote = Access::remote_read) {
    return require(require(open().allocate_domain()).allocate_shared(bytes, remote));
  }
};

TEST_F(SharedRegionTest, TellsPeersWhatTheyNeed) {
  SharedRegion shared = make(100, Access::remote_read | Access::remote_write);
  EXPECT_EQ(shared.size(), 100u);
  EXPECT_EQ(shared.remote().address,
            reinterpret_cast<std::uintptr_t>(shared.quiescent_bytes().data()));
  EXPECT_EQ(shared.remote().length, 100u);
  EXPECT_EQ(shared.remote().key, RemoteKey{unsafe::native(shared.region())->rkey});
  EXPECT_EQ(shared.region().access(),
            Access::local_write | Access::remote_read | Access::remote_write);
}

TEST_F(SharedRegionTest, IsLocalMemoryToo) {
  SharedRegion shared = make(100);
  EXPECT_EQ(shared.region().gather(shared.quiescent_bytes()).size_bytes(), 100u);
  EXPECT_EQ(shared.region().scatter(shared.quiescent_bytes()).size_bytes(), 100u);
}

TEST_F(SharedRegionTest, NeedsARemoteRightAndNothingElse) {
  const ProtectionDomain domain = require(open().allocate_domain());
  std::array<std::byte, 64> memory{};
  const int before = live();
  for (const AccessFlags wrong :
       {AccessFlags{}, AccessFlags{Access::local_write}, Access::remote_read | Access::local_write,
        Access::remote_write | Access::zero_based, AccessFlags{Access::relaxed_ordering}}) {
    const Numbers numbers{.value = wrong.bits, .limit = kRemoteAccess.bits};
    EXPECT_TRUE(fails_naming(domain.register_shared(memory, wrong), Errc::invalid_argument,
                             "remote access", numbers));
    EXPECT_TRUE(fails_naming(domain.allocate_shared(64, wrong), Errc::invalid_argument,
                             "remote access", numbers));
  }
  EXPECT_EQ(live(), before);
}

TEST_F(SharedRegionTest, HasAtomicsOnlyWhereTheDeviceHas) {
  const SharedRegion shared = make(8, Access::remote_atomic);
  EXPECT_TRUE(shared.region().access().has(Access::remote_atomic));
  knobs.device.atomic_cap = IBV_ATOMIC_NONE;
  const auto refused = require(open().allocate_domain()).allocate_shared(8, Access::remote_atomic);
  EXPECT_TRUE(fails_naming(refused, Errc::unsupported, "atomics"));
}

TEST_F(SharedRegionTest, BorrowsMemoryWithoutTakingIt) {
  const ProtectionDomain domain = require(open().allocate_domain());
  std::array<std::uint64_t, 8> words{1, 2, 3};
  {
    const SharedRegion shared = require(domain.register_shared(words));
    EXPECT_EQ(shared.size(), 64u);
    EXPECT_EQ(shared.load_acquire<std::uint64_t>(8), 2u);
  }
  EXPECT_EQ(words[2], 3u);
}

TEST_F(SharedRegionTest, GivesSpansWithTheRightsItHas) {
  const ThrowingContracts throwing;
  const SharedRegion shared = make(100, Access::remote_read);
  const auto span = shared.remote_span<std::uint64_t, Access::remote_read>();
  EXPECT_EQ(span.size(), 12u);  // The last 4 bytes are no whole word.
  EXPECT_EQ(span.region().address, shared.remote().address);
  EXPECT_THROW((static_cast<void>(shared.remote_span<std::uint64_t, Access::remote_write>())),
               ContractViolation);
  EXPECT_THROW(
      (static_cast<void>(shared.remote_span<char, Access::remote_read | Access::remote_atomic>())),
      ContractViolation);
}

// ---- Words

TEST_F(SharedRegionTest, ReadsAndWritesWords) {
  SharedRegion shared = make(64);
  shared.store_release<std::uint64_t>(56, 0x1122334455667788);
  EXPECT_EQ(shared.load_acquire<std::uint64_t>(56), 0x1122334455667788u);
  EXPECT_EQ(shared.load_acquire<std::uint64_t>(48), 0u);
  shared.store_release<std::uint8_t>(63, 5);
  EXPECT_EQ(shared.load_acquire<std::uint8_t>(63), 5u);
  EXPECT_EQ(shared.quiescent_bytes()[63], std::byte{5});
}

TEST_F(SharedRegionTest, RefusesWordsOutside) {
  const ThrowingContracts throwing;
  SharedRegion shared = make(64);
  EXPECT_THROW(static_cast<void>(shared.load_acquire<std::uint64_t>(57)), ContractViolation);
  EXPECT_THROW(static_cast<void>(shared.load_acquire<std::uint64_t>(64)), ContractViolation);
  EXPECT_THROW(static_cast<void>(shared.load_acquire<std::uint8_t>(~std::size_t{0})),
               ContractViolation);
  EXPECT_THROW(shared.store_release<std::uint8_t>(64, 1), ContractViolation);
}

TEST_F(SharedRegionTest, RefusesWordsThatAreNotAligned) {
  const ThrowingContracts throwing;
  SharedRegion shared = make(64);
  EXPECT_THROW(static_cast<void>(shared.load_acquire<std::uint64_t>(4)), ContractViolation);
  EXPECT_THROW(shared.store_release<std::uint16_t>(1, 1), ContractViolation);
  EXPECT_EQ(shared.load_acquire<std::uint32_t>(4), 0u);
}

// Everything written before the word is visible once the word is.
TEST_F(SharedRegionTest, AWordPublishesWhatCameBefore) {
  SharedRegion shared = make(128);
  std::thread writer{[&] {
    for (std::uint64_t round = 1; round <= 1000; ++round) {
      while (shared.load_acquire<std::uint64_t>(64) != round - 1) std::this_thread::yield();
      std::ranges::fill(shared.quiescent_bytes().first(64), static_cast<std::byte>(round));
      shared.store_release<std::uint64_t>(64, ~round);
    }
  }};
  for (std::uint64_t round = 1; round <= 1000; ++round) {
    while (shared.load_acquire<std::uint64_t>(64) != ~round) std::this_thread::yield();
    for (const std::byte each : shared.quiescent_bytes().first(64))
      ASSERT_EQ(each, static_cast<std::byte>(round));
    shared.store_release<std::uint64_t>(64, round);
  }
  writer.join();
}

// ---- Ownership

TEST_F(SharedRegionTest, IsEmptyAfterAMove) {
  const ThrowingContracts throwing;
  SharedRegion from = make(64);
  const RemoteMemoryRegion remote = from.remote();
  SharedRegion to = std::move(from);
  EXPECT_EQ(to.remote(), remote);
  EXPECT_EQ(to.size(), 64u);
  EXPECT_EQ(from.size(), 0u);
  EXPECT_TRUE(from.quiescent_bytes().empty());
  EXPECT_THROW(static_cast<void>(from.load_acquire<std::uint8_t>(0)), ContractViolation);
}

TEST_F(SharedRegionTest, TakesTheOtherAndLetsItsOwnGo) {
  SharedRegion kept = make(10);
  const int before = live();
  SharedRegion other = make(20);
  const RemoteMemoryRegion remote = other.remote();
  kept = std::move(other);
  EXPECT_EQ(kept.remote(), remote);
  EXPECT_EQ(kept.size(), 20u);
  EXPECT_EQ(other.size(), 0u);
  EXPECT_EQ(live(), before);
}

TEST_F(SharedRegionTest, ThatCannotBeHadLeavesNothing) {
  knobs.device.max_mr_size = 10;
  const ProtectionDomain domain = require(open().allocate_domain());
  EXPECT_TRUE(fails_naming(domain.allocate_shared(11, Access::remote_read), Errc::limit_exceeded,
                           "length", {.value = 11, .limit = 10}));
}

}  // namespace
}  // namespace verbatim::test
