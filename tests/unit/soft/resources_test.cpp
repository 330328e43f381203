// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: many buffers cost no more each than a few, and not one descriptor each; a channel takes
//       little of the shared memory, of which a container has 64 MiB.
// Method: counts descriptors, processor time of this thread, and blocks behind the files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim::test {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

/// Of this thread only, so that other programs do not count.
std::chrono::microseconds processor_time() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

TEST(ManyBuffers, NeedFewDescriptors) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const auto before = open_descriptors();
  std::vector<Buffer> all;
  for (int i = 0; i < 10'000; ++i) {
    auto made = domain.allocate(64);
    ASSERT_TRUE(made) << "buffer " << i << ": " << to_string(made.error());
    all.push_back(*std::move(made));
    // Also in between, so that it does not fail only after a minute.
    if (i % 1000 == 999) {
      ASSERT_LT(open_descriptors() - before, 100) << "after " << i + 1 << " buffers";
    }
  }
}

TEST(ManyBuffers, CostNoMoreEachThanFew) {
  constexpr int kBlock = 1000;
  // For the steps of the clock, and for the first touch of tables, which the first block need not
  // pay for.
  constexpr std::chrono::milliseconds kMargin{20};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  std::array<std::vector<Buffer>, 10> all;
  std::vector<std::chrono::microseconds> blocks;
  for (std::vector<Buffer>& block : all) {
    const auto start = processor_time();
    for (int i = 0; i < kBlock; ++i) {
      auto made = domain.allocate(64);
      ASSERT_TRUE(made) << "block " << blocks.size() << ", buffer " << i << ": "
                        << to_string(made.error());
      block.push_back(*std::move(made));
    }
    blocks.push_back(processor_time() - start);
  }
  // A single slow block is due to the system. If each cost more than the one before, all late ones
  // would be slow.
  const auto first = std::max(blocks[0], blocks[1]);
  const auto most = (3 * first + kMargin).count();
  EXPECT_LE(std::min({blocks[7], blocks[8], blocks[9]}).count(), most)
      << "microseconds for a late block; the first took " << first.count();
  // Freeing is the same: it costs about as much as allocating, also while nearly all are there.
  blocks.clear();
  for (std::vector<Buffer>& block : all) {
    const auto start = processor_time();
    block.clear();
    blocks.push_back(processor_time() - start);
  }
  EXPECT_LE(std::min({blocks[0], blocks[1], blocks[2]}).count(), most);
}

/// Memory behind all files of the device's directory.
std::uint64_t shared_bytes() {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(std::getenv("VERBATIM_SOFT_DIR"))) {
    struct stat info{};
    if (stat(entry.path().c_str(), &info) == 0)
      bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

constexpr std::uint64_t kMost = 160 << 10;  ///< Per channel, at the default depth.

TEST(ChannelMemory, IsLittle) {
  constexpr int kPairs = 8;
  const ProtectionDomain domain = require(open_context().allocate_domain());
  std::vector<std::pair<Channel, Channel>> pairs;
  // The first one pays for the tables.
  pairs.push_back(require(connect_pair(domain)));
  const std::uint64_t before = shared_bytes();
  ASSERT_GT(before, 0u);
  for (int i = 0; i < kPairs; ++i) pairs.push_back(require(connect_pair(domain)));
  EXPECT_LE((shared_bytes() - before) / (2 * kPairs), kMost) << "bytes per channel";
}

TEST(ChannelMemory, ComesBack) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const auto one = [&] { static_cast<void>(require(connect_pair(domain))); };
  for (int i = 0; i < 4; ++i) one();
  const std::uint64_t before = shared_bytes();
  for (int i = 0; i < 100; ++i) one();
  EXPECT_LE(shared_bytes(), before + 2 * kMost) << "a hundred pairs left more than one has";
}

}  // namespace
}  // namespace verbatim::test
