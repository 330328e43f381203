// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a contract violation says what, with which values and where, and never returns.
// Method: a handler that throws, and death tests for the two that do not.
#include "verbatim/base/check.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace verbatim {
namespace {

void throw_it(const ContractViolation& violation) { throw violation; }
void return_from_it(const ContractViolation&) {}

class Check : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    before_ = set_contract_handler(nullptr);
  }
  void TearDown() override { set_contract_handler(before_); }

 private:
  ContractHandler before_ = nullptr;
};
using CheckDeathTest = Check;

TEST_F(Check, PassesWhatHolds) {
  set_contract_handler(throw_it);
  EXPECT_NO_THROW(check(true, "holds"));
}

TEST_F(Check, HandlerLearnsWhatAndWhere) {
  set_contract_handler(throw_it);
  const unsigned line = __LINE__ + 2;
  try {
    check(false, "must hold");
    FAIL() << "check() returned";
  } catch (const ContractViolation& violation) {
    EXPECT_STREQ(violation.what, "must hold");
    EXPECT_EQ(violation.where.line(), line);
    EXPECT_NE(std::string{violation.where.file_name()}.find("check_test.cpp"), std::string::npos);
  }
}

TEST_F(Check, HandlerLearnsTheValues) {
  set_contract_handler(throw_it);
  try {
    contract_violated("index beyond the span", 7, 5, std::source_location::current());
  } catch (const ContractViolation& violation) {
    EXPECT_EQ(violation.value, 7u);
    EXPECT_EQ(violation.limit, 5u);
  }
}

TEST_F(Check, ReturnsTheHandlerThatWasSet) {
  set_contract_handler(throw_it);
  EXPECT_EQ(set_contract_handler(return_from_it), &throw_it);
  EXPECT_EQ(set_contract_handler(nullptr), &return_from_it);
  EXPECT_NE(set_contract_handler(nullptr), nullptr);  // The default one.
}

TEST_F(CheckDeathTest, DefaultPrintsMessageAndAborts) {
  EXPECT_DEATH(contract_violated("too deep", 7, 5, std::source_location::current()),
               "misuse: too deep \\(value 7, limit 5\\)");
}

TEST_F(CheckDeathTest, HandlerThatReturnsStillAborts) {
  EXPECT_EXIT(
      {
        set_contract_handler(return_from_it);
        check(false, "must hold");
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace verbatim
