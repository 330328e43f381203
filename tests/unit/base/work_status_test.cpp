// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every status of the verbs has its value, name and class, and unknown ones do no harm.
#include "verbatim/base/work_status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <set>
#include <string>

namespace verbatim {
namespace {

using testing::HasSubstr;
using testing::Not;
using enum WorkErrorClass;

struct Row {
  WorkStatus status;
  ibv_wc_status verbs;
  WorkErrorClass error_class;
};

constexpr Row kRows[] = {
    {WorkStatus::success, IBV_WC_SUCCESS, unknown},
    {WorkStatus::local_length, IBV_WC_LOC_LEN_ERR, local_programming},
    {WorkStatus::local_queue_pair_operation, IBV_WC_LOC_QP_OP_ERR, local_programming},
    {WorkStatus::local_eec_operation, IBV_WC_LOC_EEC_OP_ERR, local_programming},
    {WorkStatus::local_protection, IBV_WC_LOC_PROT_ERR, local_programming},
    {WorkStatus::flushed, IBV_WC_WR_FLUSH_ERR, local_resource},
    {WorkStatus::memory_window_bind, IBV_WC_MW_BIND_ERR, local_resource},
    {WorkStatus::bad_response, IBV_WC_BAD_RESP_ERR, unknown},
    {WorkStatus::local_access, IBV_WC_LOC_ACCESS_ERR, local_programming},
    {WorkStatus::remote_invalid_request, IBV_WC_REM_INV_REQ_ERR, remote},
    {WorkStatus::remote_access, IBV_WC_REM_ACCESS_ERR, remote},
    {WorkStatus::remote_operation, IBV_WC_REM_OP_ERR, remote},
    {WorkStatus::retry_exceeded, IBV_WC_RETRY_EXC_ERR, transport},
    {WorkStatus::rnr_retry_exceeded, IBV_WC_RNR_RETRY_EXC_ERR, transport},
    {WorkStatus::local_rdd_violation, IBV_WC_LOC_RDD_VIOL_ERR, local_programming},
    {WorkStatus::remote_invalid_rd_request, IBV_WC_REM_INV_RD_REQ_ERR, remote},
    {WorkStatus::remote_aborted, IBV_WC_REM_ABORT_ERR, remote},
    {WorkStatus::invalid_eec_number, IBV_WC_INV_EECN_ERR, local_programming},
    {WorkStatus::invalid_eec_state, IBV_WC_INV_EEC_STATE_ERR, local_programming},
    {WorkStatus::fatal, IBV_WC_FATAL_ERR, fatal},
    {WorkStatus::response_timeout, IBV_WC_RESP_TIMEOUT_ERR, timeout},
    {WorkStatus::general, IBV_WC_GENERAL_ERR, unknown},
    {WorkStatus::tag_matching, IBV_WC_TM_ERR, unknown},
    {WorkStatus::tag_matching_incomplete, IBV_WC_TM_RNDV_INCOMPLETE, unknown},
};

TEST(WorkStatus, HasTheVerbsValues) {
  for (const Row& row : kRows) EXPECT_EQ(static_cast<int>(row.status), row.verbs);
}

TEST(WorkStatus, EachHasAClassAndANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Row& row : kRows) {
    EXPECT_EQ(class_of(row.status), row.error_class) << to_string(row.status);
    EXPECT_TRUE(names.insert(to_string(row.status)).second) << to_string(row.status);
  }
}

TEST(WorkStatus, UnknownOneHasNoClassAndNoHint) {
  const auto status = static_cast<WorkStatus>(99);
  EXPECT_EQ(to_string(status), "unknown status");
  EXPECT_EQ(class_of(status), unknown);
  EXPECT_EQ(hint_of(status), "");
}

TEST(WorkStatus, RdIsReliableDatagramNotRead) {
  const auto status = WorkStatus::remote_invalid_rd_request;
  EXPECT_THAT(std::string{to_string(status)}, HasSubstr("reliable-datagram"));
  EXPECT_THAT(std::string{hint_of(status)}, Not(HasSubstr("read")));
}

TEST(WorkStatus, CommonFailuresHaveAHint) {
  for (const auto status :
       {WorkStatus::local_length, WorkStatus::local_protection, WorkStatus::flushed,
        WorkStatus::remote_access, WorkStatus::retry_exceeded, WorkStatus::rnr_retry_exceeded})
    EXPECT_NE(hint_of(status), "") << to_string(status);
  EXPECT_EQ(hint_of(WorkStatus::success), "");
}

TEST(WorkErrorClass, EachHasAName) {
  std::set<std::string_view> names;
  for (const auto each :
       {local_programming, local_resource, remote, transport, timeout, fatal, unknown})
    EXPECT_TRUE(names.insert(to_string(each)).second);
  EXPECT_EQ(to_string(static_cast<WorkErrorClass>(99)), to_string(unknown));
}

}  // namespace
}  // namespace verbatim
