// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the rights are the verbs' own bits.
#include "verbatim/verbs/access.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace verbatim {
namespace {

TEST(AccessFlags, StartEmpty) { EXPECT_EQ(AccessFlags{}.bits, 0u); }

TEST(AccessFlags, HaveTheVerbsBits) {
  EXPECT_EQ(AccessFlags{Access::local_write}.bits, unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(AccessFlags{Access::remote_write}.bits, unsigned{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(AccessFlags{Access::remote_read}.bits, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(AccessFlags{Access::remote_atomic}.bits, unsigned{IBV_ACCESS_REMOTE_ATOMIC});
  EXPECT_EQ(AccessFlags{Access::memory_window_bind}.bits, unsigned{IBV_ACCESS_MW_BIND});
  EXPECT_EQ(AccessFlags{Access::zero_based}.bits, unsigned{IBV_ACCESS_ZERO_BASED});
  EXPECT_EQ(AccessFlags{Access::on_demand}.bits, unsigned{IBV_ACCESS_ON_DEMAND});
  EXPECT_EQ(AccessFlags{Access::huge_pages}.bits, unsigned{IBV_ACCESS_HUGETLB});
  EXPECT_EQ(AccessFlags{Access::relaxed_ordering}.bits, unsigned{IBV_ACCESS_RELAXED_ORDERING});
}

TEST(AccessFlags, LocalAndRemoteRightsCombine) {
  EXPECT_EQ((Access::local_write | Access::remote_write | Access::remote_read).bits, 7u);
}

TEST(AccessFlags, JoiningTwiceChangesNothing) {
  EXPECT_EQ((Access::local_write | Access::local_write).bits, 1u);
}

TEST(AccessFlags, OrderDoesNotMatter) {
  EXPECT_EQ(Access::remote_read | Access::local_write, Access::local_write | Access::remote_read);
}

TEST(AccessFlags, RemoteRightsLeaveOutLocalWrite) {
  EXPECT_FALSE(kRemoteAccess.has_any(Access::local_write));
  EXPECT_EQ(kRemoteAccess.bits, 2u | 4u | 8u);
}

}  // namespace
}  // namespace verbatim
