// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the table accepts what the specification allows, and names what is wrong.
// Method: the path of a queue pair of each type, then each attribute left out and each one added.
#include "verbatim/verbs/transition.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <bit>
#include <string>
#include <utility>
#include <vector>

namespace verbatim {
namespace {

using enum QueuePairState;
constexpr auto kRc = QueuePairType::reliable_connection;
constexpr auto kUc = QueuePairType::unreliable_connection;
constexpr auto kUd = QueuePairType::unreliable_datagram;

constexpr unsigned kState = IBV_QP_STATE;
constexpr unsigned kAllKnown = (IBV_QP_DEST_QPN << 1) - 1;

struct Step {
  Transition transition;
  unsigned required;
  unsigned optional;
};

/// Written out one by one, so that a mistake in the table's shorthand is not repeated here.
const std::vector<Step>& steps() {
  static const std::vector<Step> kAll = {
      {{kRc, reset, initialized},
       kState | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
       0},
      {{kUc, reset, initialized},
       kState | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
       0},
      {{kUd, reset, initialized}, kState | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
      {{kRc, initialized, initialized},
       kState,
       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
      {{kUd, initialized, initialized}, kState, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
      {{kRc, initialized, ready_to_receive},
       kState | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
      {{kUc, initialized, ready_to_receive},
       kState | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
      {{kUd, initialized, ready_to_receive}, kState, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
      {{kRc, ready_to_receive, ready_to_send},
       kState | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
           IBV_QP_MAX_QP_RD_ATOMIC,
       IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
           IBV_QP_PATH_MIG_STATE},
      {{kUc, ready_to_receive, ready_to_send},
       kState | IBV_QP_SQ_PSN,
       IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
      {{kUd, ready_to_receive, ready_to_send},
       kState | IBV_QP_SQ_PSN,
       IBV_QP_CUR_STATE | IBV_QP_QKEY},
      {{kRc, ready_to_send, ready_to_send},
       kState,
       IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
           IBV_QP_MIN_RNR_TIMER},
      {{kRc, ready_to_send, send_queue_drained}, kState, IBV_QP_EN_SQD_ASYNC_NOTIFY},
      {{kUd, send_queue_drained, ready_to_send}, kState, IBV_QP_CUR_STATE | IBV_QP_QKEY},
      {{kRc, send_queue_drained, send_queue_drained},
       kState,
       IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
           IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
      {{kUc, send_queue_drained, send_queue_drained},
       kState,
       IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
           IBV_QP_PATH_MIG_STATE},
      {{kUc, send_queue_error, ready_to_send}, kState, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
      {{kUd, send_queue_error, ready_to_send}, kState, IBV_QP_CUR_STATE | IBV_QP_QKEY},
      {{kRc, ready_to_send, error}, kState, 0},
      {{kUd, initialized, reset}, kState, 0},
  };
  return kAll;
}

std::string name(const Step& step) {
  return std::string{to_string(step.transition.type)} + ' ' + to_string(step.transition.from) +
         " -> " + to_string(step.transition.to);
}

TEST(Transition, AcceptsRequiredAloneAndWithAllOptional) {
  for (const Step& step : steps()) {
    EXPECT_TRUE(check_transition(step.transition, step.required)) << name(step);
    EXPECT_TRUE(check_transition(step.transition, step.required | step.optional)) << name(step);
  }
}

TEST(Transition, MissesEachRequiredAttributeByItself) {
  for (const Step& step : steps()) {
    for (unsigned bit = 1; bit <= kAllKnown; bit <<= 1) {
      if ((step.required & bit) == 0) continue;
      const auto result = check_transition(step.transition, step.required & ~bit);
      ASSERT_FALSE(result) << name(step) << " without " << bit;
      EXPECT_EQ(result.error(), Errc::invalid_argument);
      EXPECT_EQ(result.error().value, bit) << name(step);
      EXPECT_TRUE(result.error().text_view().starts_with("missing: ")) << name(step);
    }
  }
}

TEST(Transition, ForbidsEachAttributeThatIsNeitherRequiredNorOptional) {
  for (const Step& step : steps()) {
    for (unsigned bit = 1; bit != 0; bit <<= 1) {
      if (((step.required | step.optional) & bit) != 0) continue;
      const auto result = check_transition(step.transition, step.required | bit);
      ASSERT_FALSE(result) << name(step) << " with " << bit;
      EXPECT_EQ(result.error().value, bit) << name(step);
      EXPECT_TRUE(result.error().text_view().starts_with("extra: ")) << name(step);
    }
  }
}

TEST(Transition, NamesTheAttribute) {
  const Transition connect{kRc, initialized, ready_to_receive};
  const unsigned all = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_STREQ(check_transition(connect, all & ~unsigned{IBV_QP_DEST_QPN}).error().field,
               "IBV_QP_DEST_QPN");
  EXPECT_STREQ(check_transition(connect, all | IBV_QP_SQ_PSN).error().field, "IBV_QP_SQ_PSN");
  EXPECT_STREQ(check_transition(connect, all | IBV_QP_RATE_LIMIT).error().field,
               "IBV_QP_RATE_LIMIT");
  EXPECT_STREQ(check_transition(connect, all | 1u << 30).error().field, "attributes");
  EXPECT_STREQ(check_transition(connect, all & ~kState).error().field, "IBV_QP_STATE");
  EXPECT_EQ(check_transition(connect, all | IBV_QP_SQ_PSN).error().text_view(),
            "extra: INIT -> RTR");
}

TEST(Transition, NamesTheFirstOfSeveral) {
  const auto result = check_transition({kRc, reset, initialized}, kState);
  EXPECT_STREQ(result.error().field, "IBV_QP_ACCESS_FLAGS");
  EXPECT_EQ(result.error().text_view(), "missing: RESET -> INIT");
}

TEST(Transition, RefusesOneThatDoesNotExist) {
  const auto result = check_transition({kRc, ready_to_receive, initialized}, kState);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::invalid_argument);
  EXPECT_STREQ(result.error().operation, "ibv_modify_qp");
  EXPECT_STREQ(result.error().field, "state");
  EXPECT_EQ(result.error().value, std::to_underlying(ready_to_receive));
  EXPECT_EQ(result.error().limit, std::to_underlying(initialized));
  EXPECT_EQ(result.error().text_view(), "RTR -> INIT");
}

/// One row per state, one column per state it may go to.
TEST(Transition, ExistsExactlyWhereTheSpecificationHasIt) {
  constexpr const char* kExists[] = {
      // RESET INIT RTR RTS SQD SQE ERR
      "xx.....",  // RESET
      "xxx...x",  // INIT
      "x..x..x",  // RTR
      "x..xx.x",  // RTS
      "x..xx.x",  // SQD
      "x..x..x",  // SQE
      "x.....x",  // ERR
  };
  for (const auto type : {kRc, kUc, kUd}) {
    for (unsigned from = 0; from < 7; ++from) {
      for (unsigned to = 0; to < 7; ++to) {
        const Transition transition{type, static_cast<QueuePairState>(from),
                                    static_cast<QueuePairState>(to)};
        const auto result = check_transition(transition, kState);
        const bool exists = result || std::string{result.error().field} != "state";
        EXPECT_EQ(exists, kExists[from][to] == 'x')
            << to_string(transition.from) << " -> " << to_string(transition.to);
      }
    }
  }
}

TEST(Transition, RefusesStatesAndTypesThatAreNone) {
  const auto no_state = static_cast<QueuePairState>(9);
  EXPECT_FALSE(check_transition({kRc, no_state, reset}, kState));
  EXPECT_FALSE(check_transition({kRc, reset, no_state}, kState));
  EXPECT_FALSE(check_transition({static_cast<QueuePairType>(77), reset, initialized}, kState));
}

TEST(QueuePairState, HasTheVerbsValuesAndNames) {
  EXPECT_EQ(std::to_underlying(reset), IBV_QPS_RESET);
  EXPECT_EQ(std::to_underlying(initialized), IBV_QPS_INIT);
  EXPECT_EQ(std::to_underlying(ready_to_receive), IBV_QPS_RTR);
  EXPECT_EQ(std::to_underlying(ready_to_send), IBV_QPS_RTS);
  EXPECT_EQ(std::to_underlying(send_queue_drained), IBV_QPS_SQD);
  EXPECT_EQ(std::to_underlying(send_queue_error), IBV_QPS_SQE);
  EXPECT_EQ(std::to_underlying(error), IBV_QPS_ERR);
  EXPECT_STREQ(to_string(send_queue_drained), "SQD");
  EXPECT_STREQ(to_string(send_queue_error), "SQE");
  EXPECT_STREQ(to_string(static_cast<QueuePairState>(9)), "unknown");
}

}  // namespace
}  // namespace verbatim
