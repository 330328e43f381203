// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the table "Who notices what" of manual/safety.md cannot lie, neither way.
// Method: it is read from the document. Each case of channel/ is run in a process of its own under
//         the checker of this build: where the table says yes, it ends with the report that the
//         case asks for; elsewhere it survives, and nobody says a word. That a compiler refuses a
//         case is shown by tests/compile_fail; here, that the case expects just what the table
//         says.
// Covers: channel/flight.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "misuse/runner.hpp"
#include "misuse/safety_table.hpp"

namespace verbatim::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kCompileTime{"g++", "clang"};
const std::vector<std::string> kRunTime{"always", "checked", "ASan", "TSan", "MSan", "Valgrind"};

std::string file_in(const char* folder, const std::string& name) {
  return std::string{folder} + "/" + name + ".cpp";
}
std::string runs(const std::string& name) { return file_in(VERBATIM_CHANNEL_CASES, name); }
std::string compiles(const std::string& name) { return file_in(VERBATIM_COMPILE_CASES, name); }
std::string tidied(const std::string& name) { return file_in(VERBATIM_TIDY_CASES, name); }

/// The column for a checker of the build.
std::string column_of(const std::string& checker) {
  if (checker == "asan") return "ASan";
  if (checker == "tsan") return "TSan";
  if (checker == "msan") return "MSan";
  return checker == "valgrind" ? "Valgrind" : checker;
}

const std::vector<SafetyRow>& table() {
  static const std::vector<SafetyRow> rows = read_safety_table(VERBATIM_SAFETY_DOCUMENT);
  return rows;
}

/// The cases that can be run.
std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator{VERBATIM_CHANNEL_CASES})
    names.push_back(file.path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::vector<SafetyRow> rows_of(const std::string& name) {
  std::vector<SafetyRow> rows;
  for (const SafetyRow& row : table())
    if (std::ranges::count(row.cases, name) != 0) rows.push_back(row);
  return rows;
}

/// Of soft0 as it is by default, whatever the environment says of it.
std::string command(const std::string& name, const std::string& checker) {
  std::string words = "unset VERBATIM_SOFT_MODE VERBATIM_SOFT_MEMORY VERBATIM_SOFT_LINK;";
  for (const char* const tool : {"ASAN", "TSAN", "MSAN"})
    words.append(" ").append(tool).append("_OPTIONS='").append(symbolizer()).append("'");
  words += " exec ";
  if (checker == "valgrind")
    words.append(kValgrind).append("--suppressions='" VERBATIM_SUPPRESSIONS "/valgrind.supp' ");
  return words + "'" VERBATIM_MISUSE_PROGRAM "' " + name;
}

class ChannelMisuse : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(ChannelMisuse, IsNoticedWhereTheTableSaysSo) {
  const auto& [name, checker] = GetParam();
  const std::vector<SafetyRow> rows = rows_of(name);
  ASSERT_EQ(rows.size(), 1) << "a case has one row";
  const bool always = rows[0].says("always");
  const bool noticed = always || (checker != "release" && rows[0].says(column_of(checker)));
  const std::string report = read_expectation(runs(name), always ? "always" : checker);
  ASSERT_EQ(noticed, !report.empty()) << "the case and the table do not agree: " << report;

  if (checker == "valgrind" && !have_valgrind()) GTEST_SKIP() << kNoValgrind;
  const auto [status, output] = run(command(name, checker));
  if (noticed) {
    EXPECT_NE(status, 0) << "not noticed";
    EXPECT_TRUE(contains(output, report)) << "no \"" << report << "\" in\n" << output;
  } else {
    EXPECT_EQ(status, 0) << "noticed, and the table does not say so";
    EXPECT_EQ(output, "survived\n");
  }
}

TEST(SafetyTable, HasTheColumnsAndCellsThatTheTestsKnow) {
  ASSERT_FALSE(table().empty()) << VERBATIM_SAFETY_DOCUMENT;
  std::vector<std::string> known = kCompileTime;
  known.insert(known.end(), kRunTime.begin(), kRunTime.end());
  for (const SafetyRow& row : table()) {
    EXPECT_EQ(row.cells.size(), known.size()) << row.misuse;
    for (const std::string& column : known) {
      const bool tidy = column == "clang" && row.says(column, "tidy");
      EXPECT_TRUE(row.says(column) || row.says(column, "") || tidy) << row.misuse << ": " << column;
    }
  }
}

/// "Always" is every build: the cells beside it would say nothing.
TEST(SafetyTable, SaysAlwaysOnce) {
  for (const SafetyRow& row : table())
    for (const std::string& column : kRunTime)
      EXPECT_TRUE(!row.says("always") || column == "always" || row.says(column, ""))
          << row.misuse << ": " << column;
}

TEST(SafetyTable, NamesCasesThatExist) {
  for (const SafetyRow& row : table()) {
    EXPECT_FALSE(row.cases.empty()) << row.misuse;
    for (const std::string& name : row.cases)
      EXPECT_TRUE(fs::exists(runs(name)) || fs::exists(compiles(name)) || fs::exists(tidied(name)))
          << row.misuse << ": " << name;
  }
}

TEST(SafetyTable, HasOneRowForEachCase) {
  for (const std::string& name : cases()) EXPECT_EQ(rows_of(name).size(), 1) << name;
}

/// What one of the compilers lets pass has to be run, or nobody has looked at its cells.
TEST(SafetyTable, HasACaseToRunUnlessBothCompilersRefuse) {
  for (const SafetyRow& row : table()) {
    const bool refused = row.says("g++") && row.says("clang");
    EXPECT_EQ(std::ranges::none_of(row.cases,
                                   [](const std::string& name) { return fs::exists(runs(name)); }),
              refused)
        << row.misuse;
    for (const std::string& column : kRunTime)
      EXPECT_TRUE(!refused || row.says(column, "")) << row.misuse << ": " << column;
  }
}

TEST(SafetyTable, SaysOfEachCompilerWhatTheCompileFailCasesExpect) {
  for (const SafetyRow& row : table()) {
    bool compiled = false;
    bool tidy = false;
    for (const std::string& name : row.cases) {
      tidy |= fs::exists(tidied(name));
      if (!fs::exists(compiles(name))) continue;
      compiled = true;
      const std::vector<std::string> expected = read_compilers(compiles(name));
      for (const std::string& compiler : kCompileTime)
        EXPECT_EQ(std::ranges::count(expected, compiler) != 0, row.says(compiler))
            << row.misuse << ": " << name << ", " << compiler;
    }
    EXPECT_EQ(compiled, row.says("g++") || row.says("clang")) << row.misuse;
    EXPECT_EQ(tidy, row.says("clang", "tidy")) << row.misuse;
  }
}

/// receive_read_valgrind
std::string name_of(const testing::TestParamInfo<ChannelMisuse::ParamType>& tested) {
  return std::get<0>(tested.param) + '_' + std::get<1>(tested.param);
}

INSTANTIATE_TEST_SUITE_P(Cases, ChannelMisuse,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::ValuesIn(checkers())),
                         name_of);

}  // namespace
}  // namespace verbatim::test
