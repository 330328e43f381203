// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a range of memory is reached only with the right key, domain, bounds and access.
// Method: regions of this process; each check is broken in turn.
#include "soft/memory/reach.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <optional>
#include <set>
#include <vector>

#include "soft/memory/memory_object.hpp"
#include "soft/memory/registration.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"
#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::engine {
namespace {

using test::require;

constexpr unsigned kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() : region(register_memory(raw, bytes.data(), bytes.size(), base(), kAll)) {}
  ~MemoryTest() override {
    if (region != nullptr) {
      EXPECT_EQ(deregister_memory(region), 0);
    }
  }
  [[nodiscard]] std::uint64_t base() const {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  [[nodiscard]] RangeCheck whole() const {
    const auto id = reinterpret_cast<Domain*>(raw)->id;
    return {region->rkey, id, IBV_ACCESS_REMOTE_WRITE, base(), bytes.size()};
  }
  [[nodiscard]] bool serves(std::uint32_t key, std::uint64_t address, std::uint64_t length,
                            bool writes = true) {
    Location location;
    return locate_served(engine, key, address, length, writes, location);
  }
  [[nodiscard]] bool reaches(const RangeCheck& range) {
    Location location;
    return locate(*self, range, location);
  }

  ProtectionDomain domain = require(test::open_context().allocate_domain());
  ibv_pd* raw = unsafe::native(domain);
  Engine& engine = *Context::of(raw->context).engine;
  Peer* self = &engine.peers().self();
  std::vector<std::byte> bytes = std::vector<std::byte>(1000);
  ibv_mr* region;
};

TEST_F(MemoryTest, WholeRegionAndEveryPartIsReached) {
  Location location;
  ASSERT_TRUE(locate(*self, whole(), location));
  EXPECT_EQ(location.direct, bytes.data());
  RangeCheck part = whole();
  part.address += 10;
  part.length = 5;
  ASSERT_TRUE(locate(*self, part, location));
  EXPECT_EQ(location.direct, bytes.data() + 10);
  part.address = base() + bytes.size();
  part.length = 0;
  EXPECT_TRUE(reaches(part));
}

TEST_F(MemoryTest, BoundsAreChecked) {
  RangeCheck range = whole();
  ++range.length;
  EXPECT_FALSE(reaches(range));
  range = whole();
  --range.address;
  EXPECT_FALSE(reaches(range));
  range = whole();
  range.length = ~std::uint64_t{0};
  EXPECT_FALSE(reaches(range));
  range.address = ~std::uint64_t{0};
  range.length = 2;
  EXPECT_FALSE(reaches(range));
}

TEST_F(MemoryTest, KeyDomainAndAccessAreChecked) {
  RangeCheck range = whole();
  for (const std::uint32_t key : {0u, range.key ^ 1, range.key + 256, 0xffffffffu}) {
    range.key = key;
    EXPECT_FALSE(reaches(range)) << key;
  }
  range = whole();
  ++range.domain;
  EXPECT_FALSE(reaches(range));
  range = whole();
  range.access = IBV_ACCESS_REMOTE_ATOMIC;
  EXPECT_FALSE(reaches(range));
}

TEST_F(MemoryTest, KeyOfAFormerRegionIsStale) {
  const RangeCheck former = whole();
  EXPECT_EQ(deregister_memory(region), 0);
  region = nullptr;
  EXPECT_FALSE(reaches(former));
}

TEST_F(MemoryTest, ReregistrationMovesTheRegion) {
  const RangeCheck former = whole();
  std::vector<std::byte> other(500);
  ASSERT_EQ(reregister_memory(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(),
                              other.size(), 0),
            0);
  EXPECT_FALSE(reaches(former)) << "the old key is dead";
  EXPECT_NE(region->rkey, former.key);
  EXPECT_EQ(region->lkey, region->rkey);
  EXPECT_EQ(region->addr, other.data());
  EXPECT_EQ(region->length, other.size());
  RangeCheck range = former;
  range.key = region->rkey;
  EXPECT_FALSE(reaches(range)) << "and so is the old place";
  range.address = reinterpret_cast<std::uintptr_t>(other.data());
  range.length = other.size();
  Location location;
  ASSERT_TRUE(locate(*self, range, location));
  EXPECT_EQ(location.direct, other.data());
  EXPECT_FALSE(serves(former.key, base(), bytes.size()));
  EXPECT_EQ(reregister_memory(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data(),
                              bytes.size(), 0),
            0);
}

TEST_F(MemoryTest, ReregistrationChangesRights) {
  const RangeCheck former = whole();
  const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  ASSERT_EQ(reregister_memory(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, rights), 0);
  EXPECT_EQ(region->rkey, former.key) << "programs rely on it";
  EXPECT_FALSE(reaches(former));
  EXPECT_FALSE(reaches(whole())) << "a right is gone";
  RangeCheck range = whole();
  range.access = IBV_ACCESS_REMOTE_READ;
  EXPECT_TRUE(reaches(range));
}

TEST_F(MemoryTest, ReregistrationChangesTheDomain) {
  const RangeCheck former = whole();
  std::optional<ProtectionDomain> other = require(domain.context().allocate_domain());
  ibv_pd* const moved = unsafe::native(*other);
  ASSERT_EQ(reregister_memory(region, IBV_REREG_MR_CHANGE_PD, moved, nullptr, 0, 0), 0);
  EXPECT_EQ(region->pd, moved);
  EXPECT_FALSE(reaches(former));
  RangeCheck range = whole();
  EXPECT_FALSE(reaches(range)) << "not in the old domain";
  range.domain = reinterpret_cast<Domain*>(moved)->id;
  EXPECT_TRUE(reaches(range));
  // Each domain counts its users: the new one is busy, the old one is free.
  EXPECT_EQ(reinterpret_cast<Domain*>(moved)->users.load(), 1u);
  EXPECT_EQ(reinterpret_cast<Domain*>(raw)->users.load(), 0u);
  EXPECT_EQ(reregister_memory(region, IBV_REREG_MR_CHANGE_PD, raw, nullptr, 0, 0), 0);
  EXPECT_EQ(reinterpret_cast<Domain*>(raw)->users.load(), 1u);
}

TEST_F(MemoryTest, RefusedReregistrationLeavesTheRegionAsItWas) {
  void* const nowhere =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(nowhere, 4096);
  const ProtectionDomain foreign = require(test::open_context().allocate_domain());
  struct Row {
    int flags;
    ibv_pd* domain;
    void* address;
    std::size_t length;
    int access;
    int expected;
  };
  const int move = IBV_REREG_MR_CHANGE_TRANSLATION;
  for (const Row& row :
       {Row{0, nullptr, nullptr, 0, 0, EINVAL}, Row{8, nullptr, nullptr, 0, 0, EINVAL},
        Row{move, nullptr, nowhere, 4096, 0, EFAULT},
        Row{move, nullptr, bytes.data(), 0, 0, EINVAL},
        Row{move, nullptr, bytes.data(), 8, IBV_ACCESS_REMOTE_READ, EINVAL},
        Row{IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0, EINVAL},
        Row{IBV_REREG_MR_CHANGE_PD, unsafe::native(foreign), nullptr, 0, 0, EINVAL},
        Row{IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL}}) {
    const RangeCheck before = whole();
    errno = 0;
    EXPECT_EQ(reregister_memory(region, row.flags, row.domain, row.address, row.length, row.access),
              IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(errno, row.expected);
    EXPECT_EQ(region->rkey, before.key);
    EXPECT_TRUE(reaches(before));
  }
}

TEST_F(MemoryTest, OwnRequestsDoNotBelieveTheSegment) {
  // Any process of this user can write there.
  engine::SharedRegion& shared = engine.segment().regions[region_index(region->rkey)];
  const std::uint64_t address = shared.address;
  const std::uint64_t length = shared.length;
  shared.address = 8;
  shared.length = ~std::uint64_t{0};
  Location location;
  EXPECT_TRUE(locate(*self, whole(), location));
  EXPECT_EQ(location.direct, bytes.data());
  EXPECT_FALSE(serves(region->rkey, 8, 8));
  shared.address = address;
  shared.length = length;
}

TEST_F(MemoryTest, RelayServesRegisteredMemoryOnly) {
  EXPECT_TRUE(serves(region->rkey, base(), bytes.size()));
  EXPECT_TRUE(serves(region->rkey, base() + 1, bytes.size() - 1));
  EXPECT_FALSE(serves(region->rkey ^ 1, base(), 1));
  EXPECT_FALSE(serves(0, base(), 1));
  EXPECT_FALSE(serves(region->rkey, base() + 1, bytes.size()));
  EXPECT_FALSE(serves(region->rkey, base() - 1, 1));
  EXPECT_TRUE(serves(region->rkey, base(), 1, false));
  // The memory may be mapped without the right to write to it.
  ibv_mr* const read_only = register_memory(raw, bytes.data(), bytes.size(), base(), 0);
  ASSERT_NE(read_only, nullptr);
  EXPECT_TRUE(serves(read_only->rkey, base(), 1, false));
  EXPECT_FALSE(serves(read_only->rkey, base(), 1, true));
  EXPECT_EQ(deregister_memory(read_only), 0);
}

TEST_F(MemoryTest, RegistrationOfWhatIsNotThereFails) {
  void* const nowhere =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(nowhere, 4096);
  EXPECT_EQ(register_memory(raw, nowhere, 4096, 0, kAll), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(register_memory(raw, bytes.data(), 0, 0, kAll), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(register_memory(raw, bytes.data(), 8, 0, IBV_ACCESS_REMOTE_WRITE), nullptr)
      << "remote writes need local ones";
}

TEST_F(MemoryTest, ReadOnlyPagesAreForReading) {
  void* const page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(register_memory(raw, page, 4096, 0, kAll), nullptr);
  ibv_mr* const readable = register_memory(raw, page, 4096, 0, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(readable, nullptr);
  EXPECT_EQ(deregister_memory(readable), 0);
  munmap(page, 4096);
}

TEST_F(MemoryTest, AtomicsReturnTheOldValue) {
  auto* const word = reinterpret_cast<std::uint64_t*>(bytes.data());
  const Location at{.direct = bytes.data(), .address = base(), .owner = self};
  std::uint64_t old = 99;
  ASSERT_EQ(atomic_memory(engine, at, {.is_swap = false, .compare_add = 5, .swap = 0}, old),
            Copied::yes);
  EXPECT_EQ(old, 0u);
  EXPECT_EQ(*word, 5u);
  ASSERT_EQ(atomic_memory(engine, at, {.is_swap = true, .compare_add = 4, .swap = 7}, old),
            Copied::yes);
  EXPECT_EQ(old, 5u);
  EXPECT_EQ(*word, 5u);
  ASSERT_EQ(atomic_memory(engine, at, {.is_swap = true, .compare_add = 5, .swap = 7}, old),
            Copied::yes);
  EXPECT_EQ(*word, 7u);
}

// One place has 2^16 keys, so a program that moves a region again and again would soon see an old
// one.
TEST_F(MemoryTest, KeysOfARegionThatMovesDoNotComeRoundSoon) {
  std::set<std::uint32_t> seen{region->rkey};
  for (int i = 0; i < 70'000; ++i) {
    ASSERT_EQ(reregister_memory(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data(),
                                bytes.size(), 0),
              0);
    ASSERT_TRUE(seen.insert(region->rkey).second) << "after " << i;
  }
}

TEST_F(MemoryTest, AtomicsWaitForNobodyWhoKeepsTheLock) {
  auto& lock = engine.segment().atomics;
  lock.store(engine.tag());
  const Location at{.direct = bytes.data(), .address = base(), .owner = self};
  std::uint64_t old = 0;
  EXPECT_EQ(atomic_memory(engine, at, {.is_swap = false, .compare_add = 5, .swap = 0}, old),
            Copied::not_now);
  lock.store(0);
}

}  // namespace
}  // namespace verbatim::engine
