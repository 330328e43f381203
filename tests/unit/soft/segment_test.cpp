// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a process allocates in its segment is backed, zeroed, and reused; asking for too much
//       is an error.
// Method: allocations of known sizes, checked by offset.
#include "soft/shared/segment.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <span>

#include "soft/shared/liveness.hpp"
#include "support/forked_child.hpp"
#include "support/named_error.hpp"
#include "support/pattern.hpp"
#include "support/seed.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::engine {
namespace {

using test::require;

class SegmentTest : public testing::Test {
 protected:
  std::span<std::byte> bytes(std::uint64_t offset, std::size_t size) {
    return {own->at<std::byte>(offset), size};
  }
  /// Memory behind the file, in bytes.
  [[nodiscard]] std::uint64_t backed() const {
    struct stat info{};
    EXPECT_EQ(stat(directory.file('p', own->slot(), 0).c_str(), &info), 0);
    return static_cast<std::uint64_t>(info.st_blocks) * 512;
  }

  test::TemporarySoftDirectory place;
  Directory directory = require(Directory::open());
  std::unique_ptr<OwnSegment> own = require(OwnSegment::create(directory));
};

TEST_F(SegmentTest, SaysWhoItBelongsTo) {
  const Segment& segment = own->shared();
  EXPECT_EQ(segment.magic, kMagic);
  EXPECT_EQ(segment.version, layout_version());
  EXPECT_EQ(segment.slot, own->slot());
  EXPECT_EQ(segment.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(segment.start_time, start_time_of(segment.pid));
  EXPECT_EQ(own->tag(), tag_of(segment.slot, segment.nonce));
  EXPECT_EQ(slot_of_tag(own->tag()), own->slot());
}

TEST_F(SegmentTest, IsSparse) { EXPECT_LT(backed(), 256u << 10); }

TEST_F(SegmentTest, GoesWithItsOwner) {
  own.reset();
  EXPECT_FALSE(std::filesystem::exists(place.path()));
}

TEST_F(SegmentTest, ReusesWhatWasFreedAndZeroesIt) {
  const std::uint64_t first = require(own->allocate(3 * kPage));
  EXPECT_GE(first, kRingsOffset);
  test::fill(bytes(first, 3 * kPage), 1);
  own->free(first, 3 * kPage);
  const std::uint64_t again = require(own->allocate(3 * kPage - 5));
  EXPECT_EQ(again, first);
  EXPECT_TRUE(test::all_equal(bytes(again, 3 * kPage), std::byte{}));
}

TEST_F(SegmentTest, MergesNeighboursInEveryOrder) {
  const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    std::uint64_t part[3];
    for (auto& each : part) each = require(own->allocate(kPage));
    EXPECT_EQ(part[1], part[0] + kPage);
    EXPECT_EQ(part[2], part[1] + kPage);
    const std::uint64_t behind = require(own->allocate(kPage));
    for (const int i : order) own->free(part[i], kPage);
    const std::uint64_t whole = require(own->allocate(3 * kPage));
    EXPECT_EQ(whole, part[0]);
    own->free(whole, 3 * kPage);
    own->free(behind, kPage);
  }
}

TEST_F(SegmentTest, GivesFreedMemoryBackToTheSystem) {
  const std::uint64_t before = backed();
  const std::uint64_t big = require(own->allocate(4 << 20));
  EXPECT_GE(backed(), before + (4 << 20)) << "backed before it is handed out";
  own->free(big, 4 << 20);
  EXPECT_LE(backed(), before + kPage);
}

TEST_F(SegmentTest, MoreThanThereIsIsAnError) {
  EXPECT_TRUE(test::fails_naming(own->allocate(kSegmentBytes), Errc::out_of_resources, "bytes",
                                 {.value = kSegmentBytes, .limit = kSegmentBytes}));
  EXPECT_TRUE(test::succeeds(own->allocate(kPage))) << "and does no harm";
}

TEST_F(SegmentTest, LimitOfFileSizesIsAnErrorAndNoSignal) {
  test::in_forked_child([&] {
    const rlimit few{.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &few), 0);
    const auto made = OwnSegment::create(directory);
    EXPECT_TRUE(test::fails_naming(made, Errc::out_of_resources, "ulimit -f",
                                   {.value = kSegmentBytes, .limit = 1 << 20}));
    EXPECT_EQ(made.error().os_error, EFBIG);
    EXPECT_FALSE(std::filesystem::exists(directory.file('p', own->slot() + 1, 0)));
  });
}

TEST_F(SegmentTest, RandomAllocationsNeverOverlap) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  test::Random random{seed};
  std::map<std::uint64_t, std::uint64_t> live;  // offset -> bytes
  for (int step = 0; step < 1000; ++step) {
    if (!live.empty() && random.up_to(2) == 0) {
      const auto chosen =
          std::next(live.begin(), static_cast<std::ptrdiff_t>(random.up_to(live.size() - 1)));
      own->free(chosen->first, chosen->second);
      live.erase(chosen);
      continue;
    }
    const std::uint64_t size = 1 + random.up_to(5 * kPage);
    const std::uint64_t offset = require(own->allocate(size));
    const auto next = live.lower_bound(offset);
    if (next != live.end()) {
      ASSERT_LE(offset + size, next->first);
    }
    if (next != live.begin()) {
      const auto before = std::prev(next);
      ASSERT_LE(before->first + before->second, offset);
    }
    live.emplace(offset, size);
  }
}

TEST(StartTime, TellsProcessesApart) {
  EXPECT_NE(start_time_of(static_cast<std::uint32_t>(getpid())), 0u);
  EXPECT_EQ(start_time_of(0x7fffffff), 0u) << "no such process";
  EXPECT_NE(own_pid_namespace(), 0u);
}

}  // namespace
}  // namespace verbatim::engine
