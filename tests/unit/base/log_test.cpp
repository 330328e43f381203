// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: silent by default, every line goes to the sink that is set, and setting returns the old
//       sink.
#include "verbatim/base/log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbatim {
namespace {

std::vector<std::string>& lines() {
  static std::vector<std::string> kept;
  return kept;
}

void keep(LogLevel level, std::string_view message) noexcept {
  lines().push_back(std::to_string(static_cast<int>(level)) + ' ' + std::string{message});
}
void ignore(LogLevel, std::string_view) noexcept {}

class Log : public testing::Test {
 protected:
  void SetUp() override {
    lines().clear();
    before_ = set_log_sink(nullptr);
  }
  void TearDown() override { set_log_sink(before_); }

 private:
  LogSink before_ = nullptr;
};

TEST_F(Log, IsSilentWithoutASink) {
  EXPECT_FALSE(log_enabled());
  log(LogLevel::error, "nobody hears this");
  EXPECT_TRUE(lines().empty());
}

TEST_F(Log, HandsLevelAndMessageToTheSink) {
  set_log_sink(keep);
  EXPECT_TRUE(log_enabled());
  log(LogLevel::debug, "one");
  log(LogLevel::error, "two");
  EXPECT_EQ(lines(), (std::vector<std::string>{"0 one", "3 two"}));
}

TEST_F(Log, ReturnsTheSinkThatWasSet) {
  EXPECT_EQ(set_log_sink(keep), nullptr);
  EXPECT_EQ(set_log_sink(ignore), &keep);
  EXPECT_EQ(set_log_sink(nullptr), &ignore);
}

}  // namespace
}  // namespace verbatim
