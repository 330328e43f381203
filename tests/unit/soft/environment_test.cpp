// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a word in the environment that the device does not know is an error that names it, and
//       never a silent default; a directory that the user made stays, one that we made goes.
// Method: this program again, in one environment after another.
#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "unit/soft/program.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::test {
namespace {

namespace fs = std::filesystem;

class SoftEnvironment : public testing::Test {
 protected:
  static std::string line_with(const std::string& variable, const std::string& value) {
    Program program({{variable, value}});
    return program.line();
  }
  /// One error, which names the variable, its value, and the possible values.
  static void expect_refused(const std::string& variable, const std::string& value,
                             std::initializer_list<std::string_view> known) {
    const std::string line = line_with(variable, value);
    SCOPED_TRACE(line);
    EXPECT_TRUE(line.starts_with("invalid argument") || line.starts_with("malformed"));
    const std::string_view own = std::string_view{line}.substr(line.find('|') + 1);
    const std::string_view one_line = own.substr(0, own.find('|'));
    EXPECT_NE(one_line.find(variable), std::string_view::npos) << "the variable is not named";
    EXPECT_NE(one_line.find(value), std::string_view::npos) << "its value is not named";
    for (const std::string_view word : known)
      EXPECT_NE(line.find(word), std::string::npos) << word << " is not offered";
  }
  TemporarySoftDirectory place_;  ///< For its programs only.
};

TEST_F(SoftEnvironment, KnowsItsModes) {
  for (const char* const known : {"immediate", "deferred"})
    EXPECT_EQ(line_with("VERBATIM_SOFT_MODE", known), "opened") << known;
  expect_refused("VERBATIM_SOFT_MODE", "defered", {"immediate", "deferred"});
  expect_refused("VERBATIM_SOFT_MODE", "Deferred", {"immediate", "deferred"});
}

TEST_F(SoftEnvironment, KnowsItsMemoryPaths) {
  for (const char* const known : {"mapped", "process", "relay"})
    EXPECT_EQ(line_with("VERBATIM_SOFT_MEMORY", known), "opened") << known;
  expect_refused("VERBATIM_SOFT_MEMORY", "shared", {"mapped", "process", "relay"});
}

TEST_F(SoftEnvironment, KnowsItsLinkLayers) {
  for (const char* const known : {"ib", "eth"})
    EXPECT_EQ(line_with("VERBATIM_SOFT_LINK", known), "opened") << known;
  expect_refused("VERBATIM_SOFT_LINK", "roce", {"ib", "eth"});
}

TEST_F(SoftEnvironment, CountsItsDevices) {
  for (const char* const known : {"1", "2", "8"})
    EXPECT_EQ(line_with("VERBATIM_SOFT_DEVICES", known), "opened") << known;
  expect_refused("VERBATIM_SOFT_DEVICES", "two", {"8"});
  expect_refused("VERBATIM_SOFT_DEVICES", "2x", {"8"});
  expect_refused("VERBATIM_SOFT_DEVICES", "99", {"8"});
  expect_refused("VERBATIM_SOFT_DEVICES", "-1", {"8"});
}

// ---- The directory

class SoftDirectory : public testing::Test {
 protected:
  [[nodiscard]] Environment here() const { return {{"VERBATIM_SOFT_DIR", place_.path()}}; }
  TemporarySoftDirectory place_;
};

TEST_F(SoftDirectory, ThatTheUserMadeIsThereAfterTheLastProcess) {
  fs::create_directory(place_.path());
  fs::permissions(place_.path(), fs::perms::owner_all);
  Program program(here());
  EXPECT_EQ(program.line(), "opened");
  EXPECT_FALSE(fs::is_empty(place_.path()));
  EXPECT_EQ(program.end(), 0);
  ASSERT_TRUE(fs::is_directory(place_.path())) << "it was not ours to remove";
  EXPECT_TRUE(fs::is_empty(place_.path())) << "what is in it was";
}

TEST_F(SoftDirectory, ThatWeMadeIsGoneAfterTheLastProcess) {
  Program program(here());
  EXPECT_EQ(program.line(), "opened");
  EXPECT_TRUE(fs::is_directory(place_.path()));
  EXPECT_EQ(program.end(), 0);
  EXPECT_FALSE(fs::exists(place_.path()));
}

TEST_F(SoftDirectory, ThatWeMadeIsGoneAlsoIfItsMakerLeavesFirst) {
  Program first(here());
  Program second(here());
  EXPECT_EQ(second.line(), "opened");
  EXPECT_EQ(first.end(), 0);
  EXPECT_TRUE(fs::is_directory(place_.path()));
  EXPECT_EQ(second.end(), 0);
  EXPECT_FALSE(fs::exists(place_.path()));
}

TEST_F(SoftDirectory, ThatTheUserMadeIsThereAlsoAfterTwo) {
  fs::create_directory(place_.path());
  fs::permissions(place_.path(), fs::perms::owner_all);
  Program first(here());
  Program second(here());
  EXPECT_EQ(second.line(), "opened");
  EXPECT_EQ(first.end(), 0);
  EXPECT_EQ(second.end(), 0);
  EXPECT_TRUE(fs::is_directory(place_.path()));
}

}  // namespace
}  // namespace verbatim::test
