// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the table contains the path of every queue pair, and nothing that it does not know.
// Method: the path from RESET and back. Each attribute: tests/unit/verbs/transition_test.cpp.
#include "base/transition_table.hpp"

#include <gtest/gtest.h>

namespace verbatim::detail {
namespace {

TEST(TransitionTable, HasTheWayOfEveryType) {
  for (const auto type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    auto from = IBV_QPS_RESET;
    for (const auto to :
         {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR, IBV_QPS_RESET}) {
      EXPECT_NE(transition_attributes(type, from, to), nullptr) << type << ' ' << from << ' ' << to;
      from = to;
    }
  }
}

TEST(TransitionTable, TellsRequiredFromOptional) {
  const auto* attributes = transition_attributes(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS);
  ASSERT_NE(attributes, nullptr);
  EXPECT_EQ(attributes->required, unsigned{IBV_QP_SQ_PSN});
  EXPECT_EQ(attributes->optional, unsigned{IBV_QP_CUR_STATE | IBV_QP_QKEY});
}

TEST(TransitionTable, WayToResetAndErrorNeedsNothing) {
  const auto* attributes = transition_attributes(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_ERR);
  ASSERT_NE(attributes, nullptr);
  EXPECT_EQ(attributes->required | attributes->optional, 0u);
}

TEST(TransitionTable, HasNothingForWhatItDoesNotKnow) {
  EXPECT_EQ(transition_attributes(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RTR), nullptr);
  EXPECT_EQ(transition_attributes(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_ERR), nullptr);
  EXPECT_EQ(transition_attributes(IBV_QPT_RC, IBV_QPS_UNKNOWN, IBV_QPS_RESET), nullptr);
  EXPECT_EQ(transition_attributes(IBV_QPT_RAW_PACKET, IBV_QPS_RESET, IBV_QPS_INIT), nullptr);
}

}  // namespace
}  // namespace verbatim::detail
