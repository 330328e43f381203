// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How the tests of misuse run a case in a process of its own, and read its report.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::test {

/// Whether the parts of the pattern are in the text, one behind the other.
inline bool contains(std::string_view text, std::string_view pattern) {
  constexpr std::string_view kGap = " ... ";
  while (true) {
    const std::size_t gap = pattern.find(kGap);
    const std::string_view part = pattern.substr(0, gap);
    const std::size_t found = text.find(part);
    if (found == std::string_view::npos) return false;
    if (gap == std::string_view::npos) return true;
    text.remove_prefix(found + part.size());
    pattern.remove_prefix(gap + kGap.size());
  }
}

/// Names of functions in reports, whatever the environment of the caller says. clang needs a
/// program for that, and looks for it under another name.
inline std::string symbolizer() {
#if defined(__clang__)
  const std::string path = "/usr/bin/llvm-symbolizer-19";
  if (std::filesystem::exists(path)) return "external_symbolizer_path=" + path;
#endif
  return "";
}

struct Outcome {
  int status = -1;
  std::string output;
};

inline Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> chunk;
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    outcome.output.append(chunk.data(), count);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// Without its search for leaks, which no test looks at: 2.6 s for a case instead of 7.
inline constexpr const char* kValgrind = "valgrind -q --error-exitcode=99 --leak-check=no ";
inline constexpr std::string_view kNoValgrind = "valgrind is not installed: tools/install.sh bench";

inline bool have_valgrind() { return run("valgrind --version").status == 0; }

/// The names of the checkers that the program under test is built for.
inline std::vector<std::string> checkers() {
  std::vector<std::string> names;
  std::stringstream words{VERBATIM_MISUSE_CHECKERS};
  for (std::string name; words >> name;) names.push_back(name);
  return names;
}

}  // namespace verbatim::test
