// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The table of manual/safety.md that says who notices which misuse, read from the document.
#include <map>
#include <string>
#include <vector>

namespace verbatim::test {

struct SafetyRow {
  std::string misuse;
  std::vector<std::string> cases;            ///< Names of files, without extension.
  std::map<std::string, std::string> cells;  ///< By column; without marks of footnotes.

  [[nodiscard]] bool says(const std::string& column, const std::string& what = "yes") const {
    const auto found = cells.find(column);
    return found != cells.end() && found->second == what;
  }
};

/// The rows between `<!-- misuse -->` and `<!-- /misuse -->`. Empty if there is no such table.
[[nodiscard]] std::vector<SafetyRow> read_safety_table(const std::string& document);

/// What a case says that a checker has to report: the comment `// EXPECT checker...: text` and the
/// indented ones below it, with the marks of lines put in. Empty: nothing is said of the checker.
[[nodiscard]] std::string read_expectation(const std::string& file, const std::string& checker);

/// Which compilers have to refuse a case of tests/compile_fail: "g++", "clang" or both.
[[nodiscard]] std::vector<std::string> read_compilers(const std::string& file);

}  // namespace verbatim::test
