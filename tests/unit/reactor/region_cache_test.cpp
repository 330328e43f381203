// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory is registered once while the same owner has it, and is never mistaken for another's.
// Method: the null provider, which counts objects: each registration is one.
#include "verbatim/reactor/region_cache.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "providers/faulty.hpp"
#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::test {
namespace {

using Bytes = std::vector<std::byte>;

class RegionCacheTest : public NullDevice {
 protected:
  RegionCacheTest() {
    table = faulty::install(table);
    faulty::reset();
  }
  void TearDown() override {
    faulty::reset();
    NullDevice::TearDown();
  }

  static std::shared_ptr<Bytes> memory(std::size_t bytes = 64) {
    return std::make_shared<Bytes>(bytes);
  }
  static std::size_t registered() { return faulty::calls("reg_mr"); }
  static std::size_t gone() { return faulty::calls("dereg_mr"); }

  ProtectionDomain domain() { return require(open().allocate_domain()); }
};

TEST_F(RegionCacheTest, RegistersOnceForAnyPointerOfTheSameOwner) {
  RegionCache cache{domain()};
  const auto first = memory();
  const std::shared_ptr<Bytes> second = first;
  auto one = require(cache.find(first));
  auto other = require(cache.find(second));
  EXPECT_EQ(one.get(), other.get());
  // Read-only needs less than what is registered.
  EXPECT_TRUE(cache.find(std::shared_ptr<const Bytes>{first}));
  EXPECT_EQ(registered(), 1u);
  EXPECT_EQ(cache.entries(), 1u);
  EXPECT_EQ(cache.bytes(), 64u);
}

TEST_F(RegionCacheTest, PartsOfOneOwnerAreEachTheirOwn) {
  struct Both {
    std::array<std::byte, 64> first;
    std::array<std::byte, 32> second;
  };
  RegionCache cache{domain()};
  const auto both = std::make_shared<Both>();
  const std::shared_ptr<std::array<std::byte, 64>> first{both, &both->first};
  const std::shared_ptr<std::array<std::byte, 32>> second{both, &both->second};
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(cache.find(first));
    EXPECT_TRUE(cache.find(second));
  }
  EXPECT_EQ(registered(), 2u);
  // The same address but longer: registered again.
  auto whole = require(cache.find(both));
  EXPECT_EQ(OwnerTraits<Registered<Both>>::bytes(whole).size(), sizeof(Both));
  EXPECT_EQ(registered(), 3u);
  EXPECT_EQ(cache.entries(), 2u);
}

TEST_F(RegionCacheTest, AddressOfAFormerOwnerIsNoHit) {
  using Place = std::array<std::byte, 64>;
  RegionCache cache{domain()};
  Place place{};
  const auto owner = [&] { return std::shared_ptr<Place>{&place, [](void*) {}}; };
  EXPECT_TRUE(cache.find(owner()));
  const auto next = owner();
  EXPECT_TRUE(cache.find(next));
  EXPECT_EQ(registered(), 2u);
  EXPECT_EQ(gone(), 1u);  // The former owner's.
  EXPECT_EQ(cache.entries(), 1u);
  // Both at once, too: the address alone is not enough.
  const auto beside = owner();
  EXPECT_TRUE(cache.find(beside));
  EXPECT_TRUE(cache.find(next));
  EXPECT_EQ(registered(), 3u);
  EXPECT_EQ(cache.entries(), 2u);
}

TEST_F(RegionCacheTest, ContainerThatHasMovedItsElementsIsRegisteredAnew) {
  RegionCache cache{domain()};
  const auto bytes = memory(64);
  auto before = require(cache.find(bytes));
  bytes->resize(100'000);
  auto after = require(cache.find(bytes));
  EXPECT_EQ(registered(), 2u);
  EXPECT_EQ(cache.entries(), 1u);
  EXPECT_EQ(cache.bytes(), 100'000u);
  EXPECT_EQ(OwnerTraits<Registered<Bytes>>::bytes(after).data(), bytes->data());
  // What was found before must not be used any more.
  const ThrowingContracts contracts;
  const auto where = std::source_location::current();
  EXPECT_THROW(OwnerTraits<Registered<Bytes>>::gather(before, {}, where), ContractViolation);
  EXPECT_THROW(OwnerTraits<Registered<Bytes>>::gather(after, {.offset = 100'001}, where),
               ContractViolation);
  EXPECT_THROW(
      OwnerTraits<Registered<Bytes>>::gather(after, {.offset = 1, .length = 100'000}, where),
      ContractViolation);
}

TEST_F(RegionCacheTest, WritableReplacesReadOnly) {
  RegionCache cache{domain()};
  const auto bytes = memory();
  const std::shared_ptr<const Bytes> read_only = bytes;
  auto sent = require(cache.find(read_only));
  static_assert(!detail::FillableOwner<Registered<const Bytes>>);
  auto filled = require(cache.find(bytes));
  static_assert(detail::FillableOwner<Registered<Bytes>>);
  EXPECT_EQ(registered(), 2u);
  EXPECT_EQ(cache.entries(), 1u);
}

TEST_F(RegionCacheTest, LetsGoWhatWasNotAskedForLongest) {
  RegionCache cache{domain(), {.entries = 3, .bytes = 1000}};
  std::vector<std::shared_ptr<Bytes>> all;
  for (int i = 0; i < 4; ++i) all.push_back(memory(100));
  for (const std::size_t i : {0u, 1u, 2u, 0u, 3u}) EXPECT_TRUE(cache.find(all[i]));  // 1 goes.
  EXPECT_EQ(cache.entries(), 3u);
  EXPECT_EQ(gone(), 1u);
  for (const std::size_t i : {0u, 2u, 3u}) EXPECT_TRUE(cache.find(all[i]));
  EXPECT_EQ(registered(), 4u);
  EXPECT_TRUE(cache.find(all[1]));  // 0 goes.
  EXPECT_EQ(registered(), 5u);
  // And by bytes: 900 bytes leave room for one of the others.
  const auto large = memory(900);
  EXPECT_TRUE(cache.find(large));
  EXPECT_EQ(cache.entries(), 2u);
  EXPECT_EQ(cache.bytes(), 1000u);
  EXPECT_TRUE(cache.find(all[1]));
  EXPECT_EQ(registered(), 6u);
  // An object that is larger than the cache is registered, but not kept.
  {
    auto too_large = require(cache.find(memory(1001)));
    EXPECT_EQ(cache.bytes(), 1000u);
    EXPECT_EQ(gone() + 3, registered());
  }
  EXPECT_EQ(gone() + 2, registered());
}

TEST_F(RegionCacheTest, OwnerKeepsMemoryAndRegistrationLongerThanTheCache) {
  std::weak_ptr<Bytes> alive;
  {
    std::optional<Registered<Bytes>> kept;
    {
      RegionCache cache{domain(), {.entries = 1}};
      auto bytes = memory();
      alive = bytes;
      kept = require(cache.find(std::move(bytes)));
      EXPECT_TRUE(cache.find(memory()));  // The entry is dropped.
      cache.clear();
    }
    EXPECT_EQ(gone(), 1u);
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_EQ(gone(), 2u);
  EXPECT_TRUE(alive.expired());
}

TEST_F(RegionCacheTest, ForgottenOneIsRegisteredAnew) {
  RegionCache cache{domain()};
  const auto bytes = memory();
  EXPECT_TRUE(cache.find(bytes));
  cache.forget(memory());
  EXPECT_EQ(cache.entries(), 1u);
  cache.forget(bytes);
  EXPECT_EQ(cache.entries(), 0u);
  EXPECT_EQ(gone(), 1u);
  EXPECT_TRUE(cache.find(bytes));
  EXPECT_EQ(registered(), 2u);
}

TEST_F(RegionCacheTest, FailureIsNamedAndNothingIsKept) {
  RegionCache cache{domain()};
  EXPECT_TRUE(fails_naming(cache.find(memory(0)), Errc::invalid_argument, "size"));
  const auto bytes = memory();
  faulty::fail_call("reg_mr", 0, ENOMEM);
  const auto failed = cache.find(bytes);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().os_error, ENOMEM);
  EXPECT_EQ(cache.entries(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_TRUE(cache.find(bytes));
  const ThrowingContracts contracts;
  EXPECT_THROW(static_cast<void>(cache.find(std::shared_ptr<Bytes>{})), ContractViolation);
}

}  // namespace
}  // namespace verbatim::test
