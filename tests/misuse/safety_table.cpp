// SPDX-License-Identifier: MIT OR Apache-2.0
#include "misuse/safety_table.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string_view>

namespace verbatim::test {
namespace {

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(' ');
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(' ') + 1 - from);
}

/// | a | b | -> a, b
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in{line.substr(1)};
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(trimmed(cell));
  return cells;
}

/// Marks of footnotes are digits above the line.
std::string without_marks(std::string text) {
  for (const std::string_view mark : {"¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹", "⁰"})
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;) text.erase(at, mark.size());
  return text;
}

/// `a`, `b` -> a, b
std::vector<std::string> names_in(const std::string& cell) {
  static const std::regex code{"`([^`]+)`"};
  std::vector<std::string> names;
  for (std::sregex_iterator each{cell.begin(), cell.end(), code}, end; each != end; ++each)
    names.push_back((*each)[1]);
  return names;
}

}  // namespace

std::vector<SafetyRow> read_safety_table(const std::string& document) {
  std::vector<SafetyRow> rows;
  std::vector<std::string> columns;
  bool inside = false;
  for (const std::string& line : lines_of(document)) {
    if (line == "<!-- misuse -->" || line == "<!-- /misuse -->") inside = line[5] != '/';
    if (!inside || !line.starts_with('|') || line.starts_with("|---")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (columns.empty()) {
      for (const std::string& each : cells) columns.push_back(without_marks(each));
      continue;
    }
    SafetyRow row{cells.at(0), names_in(cells.at(1)), {}};
    for (std::size_t i = 2; i < columns.size(); ++i)
      row.cells[columns[i]] = i < cells.size() ? without_marks(cells[i]) : "missing";
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string read_expectation(const std::string& file, const std::string& checker) {
  const std::vector<std::string> lines = lines_of(file);
  const std::regex head{"// EXPECT ([a-z ]+): (.+)"};
  std::string text;
  bool ours = false;
  for (const std::string& line : lines) {
    std::smatch parts;
    if (std::regex_match(line, parts, head)) {
      ours = (" " + parts[1].str() + " ").find(" " + checker + " ") != std::string::npos;
      if (ours) text = parts[2];
    } else if (ours && line.starts_with("//   ")) {
      text += line.substr(4);
    } else {
      ours = false;
    }
  }
  const std::string name = std::filesystem::path{file}.filename().string();
  for (const std::string mark : {"<post>", "<use>", "<other>"}) {
    const auto marked = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.ends_with("  // " + mark); });
    const std::string place = name + ":" + std::to_string(marked - lines.begin() + 1);
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;)
      text.replace(at, mark.size(), place);
  }
  return text;
}

std::vector<std::string> read_compilers(const std::string& file) {
  const std::vector<std::string> lines = lines_of(file);
  if (lines.empty()) return {};
  if (lines[0].starts_with("// EXPECT g++")) return {"g++"};
  if (lines[0].starts_with("// EXPECT clang")) return {"clang"};
  if (lines[0].starts_with("// EXPECT:")) return {"g++", "clang"};
  return {};
}

}  // namespace verbatim::test
