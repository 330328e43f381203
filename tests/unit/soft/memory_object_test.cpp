// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that peers can map is zeroed, shared in small pieces, and returned when it is freed.
// Method: allocations of this process's engine, checked through its segment and /proc.
#include "soft/memory/memory_object.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <vector>

#include "soft/shared/engine.hpp"
#include "support/device_under_test.hpp"
#include "support/require.hpp"

namespace verbatim::engine {
namespace {

using test::require;

class MemoryObjectTest : public testing::Test {
 protected:
  void* allocate(std::size_t bytes) {
    void* const made = objects.allocate(bytes, ObjectPages::ordinary);
    EXPECT_NE(made, nullptr);
    return made;
  }
  static std::ptrdiff_t descriptors() {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  }
  static std::span<std::byte> bytes(void* at, std::size_t size) {
    return {static_cast<std::byte*>(at), size};
  }
  [[nodiscard]] MemoryObjects::Place place(const void* at, std::uint64_t size) {
    return objects.find(reinterpret_cast<std::uintptr_t>(at), size);
  }

  std::shared_ptr<Engine> engine = require(Engine::get());
  MemoryObjects& objects = engine->objects();
};

TEST_F(MemoryObjectTest, SmallOnesShareObjectsAndDoNotOverlap) {
  const auto before = descriptors();
  std::vector<void*> all;
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(allocate(4096));
    std::ranges::fill(bytes(all.back(), 4096), std::byte{1});
  }
  EXPECT_LT(descriptors() - before, 100);
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  for (void* const each : all) ASSERT_EQ(objects.free(each, 4096), 0);
  EXPECT_LE(descriptors() - before, 1);
}

TEST_F(MemoryObjectTest, FreedMemoryIsZeroWhenItIsHandedOutAgain) {
  std::vector<void*> all;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : {1u, 4096u, 4097u, 65536u, 262144u}) {
      void* const made = allocate(size);
      EXPECT_EQ(std::ranges::count(bytes(made, size), std::byte{}), static_cast<long>(size));
      std::ranges::fill(bytes(made, size), std::byte{9});
      EXPECT_EQ(objects.free(made, size), 0);
    }
  }
}

TEST_F(MemoryObjectTest, ObjectsAreFoundByAddress) {
  void* const small = allocate(8192);
  EXPECT_NE(place(small, 8192).object, 0u);
  EXPECT_NE(place(small, 8192).object, kPartlyObject);
  void* const large = allocate(1 << 20);
  EXPECT_EQ(place(large, 1 << 20).offset, 0u);
  EXPECT_NE(place(large, 1 << 20).object, place(small, 8192).object);
  EXPECT_EQ(place(static_cast<std::byte*>(large) + 5, 10).offset, 5u);
  EXPECT_EQ(place(static_cast<std::byte*>(large) + 5, std::uint64_t{1} << 40).object,
            kPartlyObject);
  int ordinary = 0;
  EXPECT_EQ(place(&ordinary, sizeof ordinary).object, 0u);
  EXPECT_EQ(objects.free(small, 8192), 0);
  EXPECT_EQ(objects.free(large, 1 << 20), 0);
}

TEST_F(MemoryObjectTest, WhatWasNotAllocatedIsNotFreed) {
  void* const small = allocate(8192);
  EXPECT_EQ(objects.free(static_cast<std::byte*>(small) + 1, 4096), EINVAL);
  int ordinary = 0;
  EXPECT_EQ(objects.free(&ordinary, sizeof ordinary), EINVAL);
  EXPECT_EQ(objects.free(small, 8192), 0);
  EXPECT_EQ(objects.free(small, 8192), EINVAL);
}

TEST_F(MemoryObjectTest, TooMuchIsAnError) {
  EXPECT_EQ(objects.allocate(std::size_t{1} << 62, ObjectPages::ordinary), nullptr);
  EXPECT_NE(errno, 0);
}

TEST_F(MemoryObjectTest, LimitOfFileSizesIsAnErrorAndNoSignal) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
  EXPECT_EQ(objects.allocate(4 << 20, ObjectPages::ordinary), nullptr);
  EXPECT_EQ(errno, EFBIG);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  void* const made = allocate(4 << 20);
  EXPECT_EQ(objects.free(made, 4 << 20), 0);
}

}  // namespace
}  // namespace verbatim::engine
