// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: slots are found by their ids, runs do not overlap, and returned runs are as before.
#include <gtest/gtest.h>

#include <vector>

#include "channel/slab.hpp"
#include "support/require.hpp"

namespace verbatim::test {
namespace {

using detail::Slab;
using detail::Slot;

TEST(Slab, GivesRunsThatDoNotOverlap) {
  Slab slab = require(Slab::reserve(64));
  EXPECT_EQ(slab.mask(), 63u);
  const auto first = require(slab.claim(10));
  const auto second = require(slab.claim(54));
  EXPECT_EQ(second.data(), first.data() + 10);
  EXPECT_TRUE(fails_with(slab.claim(1), Errc::limit_exceeded));
}

TEST(Slab, EachSlotIsFoundByItsId) {
  Slab slab = require(Slab::reserve(30));
  for (const Slot& slot : require(slab.claim(32)))
    EXPECT_EQ(&slab.slots()[slot.id & slab.mask()], &slot);
}

TEST(Slab, RunsThatCameBackAreOneAgain) {
  Slab slab = require(Slab::reserve(32));
  std::vector<std::span<Slot>> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(require(slab.claim(8)));
  for (const std::size_t each : {1u, 3u, 0u, 2u}) slab.give_back(runs[each]);
  EXPECT_EQ(require(slab.claim(32)).size(), 32u);
}

TEST(Slab, IdsAreNeverSetBack) {
  Slab slab = require(Slab::reserve(8));
  auto run = require(slab.claim(8));
  run[3].id += 5 * detail::kGeneration;
  const std::uint64_t id = run[3].id;
  slab.give_back(run);
  EXPECT_EQ(require(slab.claim(8))[3].id, id);
}

TEST(Slab, RefusesMoreThanAnIdCanTell) {
  EXPECT_TRUE(fails_with(Slab::reserve(detail::kMaxSlots + 1), Errc::limit_exceeded));
}

}  // namespace
}  // namespace verbatim::test
