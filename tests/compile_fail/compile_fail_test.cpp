// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: misuse does not compile, and the compiler says why in words that help.
// Method: each file of cases/ is one misuse. Its first line names what the compiler must say; with
//         -DCONTROL it is the same code put right, which must compile, so that a case cannot fail
//         for another reason. Both compilers, where both are there.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace verbatim::test {
namespace {

struct CommandResult {
  int status = -1;
  std::string output;
};

CommandResult run(const std::string& command) {
  CommandResult result;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> chunk;
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    result.output.append(chunk.data(), count);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// g++ always; clang++ where it is installed.
std::vector<std::string> compilers() {
  std::vector<std::string> found{"g++"};
  if (run("clang++-19 --version").status == 0) found.emplace_back("clang++-19");
  return found;
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator{VERBATIM_CASES})
    names.push_back(each.path().stem().string());
  std::ranges::sort(names);
  return names;
}

class CompileFail : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  [[nodiscard]] static std::string file() {
    return std::string{VERBATIM_CASES "/"} + std::get<0>(GetParam()) + ".cpp";
  }
  [[nodiscard]] static CommandResult compile(std::string_view definition) {
    // In plain English and ASCII, whatever the user's locale.
    return run("LC_ALL=C " + std::get<1>(GetParam()) +
               " -std=c++23 -Wall -Wextra -Werror -fsyntax-only " + VERBATIM_INCLUDES + ' ' +
               std::string{definition} + ' ' + file());
  }
};

TEST_P(CompileFail, Misuse) {
  std::string first_line;
  std::getline(std::ifstream{file()}, first_line);
  constexpr std::string_view kMark = "// EXPECT: ";
  ASSERT_TRUE(first_line.starts_with(kMark)) << file() << " does not say what it expects";
  const auto [status, output] = compile("");
  EXPECT_EQ(status, 1) << "it compiles\n" << output;
  EXPECT_TRUE(std::regex_search(output, std::regex{first_line.substr(kMark.size())}))
      << "the compiler does not say \"" << first_line.substr(kMark.size()) << "\" but\n"
      << output;
}

TEST_P(CompileFail, Control) {
  const auto [status, output] = compile("-DCONTROL");
  EXPECT_EQ(status, 0) << output;
}

/// gather_temporary_gcc
std::string name_of(const testing::TestParamInfo<CompileFail::ParamType>& tested) {
  const auto& [name, compiler] = tested.param;
  return name + (compiler.starts_with("clang") ? "_clang" : "_gcc");
}

INSTANTIATE_TEST_SUITE_P(Cases, CompileFail,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::ValuesIn(compilers())),
                         name_of);

}  // namespace
}  // namespace verbatim::test
