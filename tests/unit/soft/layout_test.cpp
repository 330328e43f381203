// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two builds with different layouts of the shared memory never use each other's, and nobody
//       has to maintain a number for that.
// Method: CMakeLists.txt changes the text of layout.hpp in several ways and computes the version
//         that a build with it would have.
#include "soft/shared/layout.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <set>

#include "soft/shared/peer.hpp"
#include "soft/shared/segment.hpp"
#include "support/require.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::engine {
namespace {

using test::require;

/// Builds with two members swapped, one more member, a smaller table, another meaning.
constexpr std::uint32_t kOthers[] = {VERBATIM_LAYOUT_SWAPPED, VERBATIM_LAYOUT_LONGER,
                                     VERBATIM_LAYOUT_SMALLER, VERBATIM_LAYOUT_MEANING};

TEST(LayoutVersion, ChangesWithTheCode) {
  std::set<std::uint32_t> versions{layout_version()};
  for (const std::uint32_t other : kOthers)
    EXPECT_TRUE(versions.insert(layout_version(other)).second);
}

TEST(LayoutVersion, StaysWithCommentsAndWhiteSpace) {
  EXPECT_EQ(layout_version(VERBATIM_LAYOUT_COMMENTED), layout_version());
}

TEST(LayoutVersion, OfAnotherBuildIsRefused) {
  const test::TemporarySoftDirectory place;
  const Directory directory = require(Directory::open());
  const std::unique_ptr<OwnSegment> other = require(OwnSegment::create(directory));
  ASSERT_EQ(other->shared().version, layout_version());
  for (const std::uint32_t version : kOthers) {
    other->shared().version = layout_version(version);
    Peers peers{directory};
    EXPECT_EQ(peers.find(other->slot()), nullptr);
  }
  other->shared().version = layout_version();
  Peers peers{directory};
  EXPECT_NE(peers.find(other->slot()), nullptr);
}

}  // namespace
}  // namespace verbatim::engine
