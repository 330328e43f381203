// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: misuse does not compile, and the compiler says why in words that help; right code compiles.
// Method: each file of cases/ is one misuse. Its first line names what the compiler must say; with
//         -DCONTROL it is the same code put right, which must compile, so that a case cannot fail
//         for another reason. Both compilers, where both are there.
//
//         // EXPECT: regex              both compilers
//         // EXPECT clang -Dx: regex    clang only, with more flags
//         // EXPECT g++ -O1: regex      g++ only, with code generation: its analysis needs that
//
//         The compiler that a case is not for must accept it: that is a known miss, and a compiler
//         that learns to see it is news. Each file of legitimate/ must compile without a warning.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
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

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator{folder})
    names.push_back(each.path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::string command_of(const std::string& compiler) {
  // In plain English and ASCII, whatever the user's locale.
  return "LC_ALL=C " + compiler + " -std=c++23 -Wall -Wextra -Werror " +
         (compiler.starts_with("clang") ? "-Wconsumed " : "") + VERBATIM_INCLUDES + ' ';
}

/// Of this process.
std::filesystem::path headers_of(const std::string& compiler) {
  return std::filesystem::path{testing::TempDir()} /
         (compiler + "-headers-" + std::to_string(getpid()));
}

/// The flags with which a case reads all of our headers before its own few: compiled once for all
/// cases, they cost each of them a tenth of what reading them costs.
std::string precompiled(const std::string& compiler) {
  static std::map<std::string, std::string> made;
  auto [flags, is_new] = made.try_emplace(compiler);
  if (!is_new) return flags->second;
  const auto folder = headers_of(compiler);
  std::filesystem::create_directories(folder);
  const std::string header = folder / "all.hpp";
  std::ofstream{header} << "#include \"verbatim/verbatim.hpp\"\n";
  const bool is_clang = compiler.starts_with("clang");
  const std::string output = header + (is_clang ? ".pch" : ".gch");
  const auto [status, said] =
      run(command_of(compiler) + "-x c++-header " + header + " -o " + output);
  EXPECT_EQ(status, 0) << said;
  if (status == 0)
    flags->second = is_clang ? "-include-pch " + output : "-Winvalid-pch -include " + header;
  return flags->second;
}

struct RemovePrecompiled : testing::Environment {
  void TearDown() override {
    for (const std::string& compiler : compilers())
      std::filesystem::remove_all(headers_of(compiler));
  }
};
[[maybe_unused]] const auto* const kRemoved =
    testing::AddGlobalTestEnvironment(new RemovePrecompiled);

/// `flags` generate code if they optimise: what the optimiser finds is not seen otherwise. Headers
/// that were compiled with other flags do not serve.
CommandResult compile(const std::string& compiler, const std::string& flags,
                      const std::string& file) {
  const bool is_plain = flags.find_first_not_of(' ') == std::string::npos ||
                        flags.find("-DCONTROL") == flags.find_first_not_of(' ');
  return run(command_of(compiler) + (is_plain ? precompiled(compiler) + ' ' : "") +
             (flags.find("-O") == std::string::npos ? "-fsyntax-only " : "-c -o /dev/null ") +
             flags + ' ' + file);
}

/// What the first line of a case says.
struct Expectation {
  std::string compiler;  ///< Empty: both.
  std::string flags;
  std::string message;
};

class CompileFail : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    std::string first_line;
    std::getline(std::ifstream{file()}, first_line);
    std::smatch parts;
    const std::regex syntax{"// EXPECT( clang| g\\+\\+)?((?: -[^ :]+)*): (.+)"};
    ASSERT_TRUE(std::regex_match(first_line, parts, syntax))
        << file() << " does not say what it expects";
    expected_ = {parts[1], parts[2], parts[3]};
  }

  [[nodiscard]] static std::string file() {
    return std::string{VERBATIM_CASES "/"} + std::get<0>(GetParam()) + ".cpp";
  }
  [[nodiscard]] CommandResult compile_case(const std::string& definition) const {
    return compile(std::get<1>(GetParam()), expected_.flags + ' ' + definition, file());
  }
  [[nodiscard]] bool is_for_this_compiler() const {
    return expected_.compiler.empty() ||
           (expected_.compiler == " clang") == std::get<1>(GetParam()).starts_with("clang");
  }

  Expectation expected_;
};

TEST_P(CompileFail, Misuse) {
  const auto [status, output] = compile_case("");
  if (!is_for_this_compiler()) {
    EXPECT_EQ(status, 0) << "said to be for" << expected_.compiler << " only, but\n" << output;
    return;
  }
  EXPECT_EQ(status, 1) << "it compiles\n" << output;
  EXPECT_TRUE(std::regex_search(output, std::regex{expected_.message}))
      << "the compiler does not say \"" << expected_.message << "\" but\n"
      << output;
}

TEST_P(CompileFail, Control) {
  const auto [status, output] = compile_case("-DCONTROL");
  EXPECT_EQ(status, 0) << output;
}

class Legitimate : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Legitimate, CompilesWithoutAWarning) {
  const auto& [name, compiler] = GetParam();
  for (const char* const level : {"-O0", "-O1", "-O2"}) {
    const auto [status, output] = compile(compiler, std::string{"-D_GLIBCXX_ASSERTIONS "} + level,
                                          VERBATIM_LEGITIMATE "/" + name + ".cpp");
    EXPECT_EQ(status, 0) << level << '\n' << output;
  }
}

// What the compilers do not see, and one check of the project's own set does.
class ClangTidy : public testing::Test {
 protected:
  void SetUp() override {
    if (run("clang-tidy-19 --version").status != 0) GTEST_SKIP() << "clang-tidy-19 is not there";
  }
  static void expect_found(const std::string& name, const std::string& by) {
    const std::string tidy =
        "LC_ALL=C clang-tidy-19 --quiet --config-file=" VERBATIM_CLANG_TIDY " ";
    EXPECT_NE(run(tidy + "--list-checks").output.find(by), std::string::npos) << by << " is off";
    const std::string check = tidy + "--checks=-*," + by + " " VERBATIM_TIDY_CASES "/" + name +
                              ".cpp -- -std=c++23 " + VERBATIM_INCLUDES;
    const auto [status, output] = run(check);
    EXPECT_NE(status, 0);
    EXPECT_NE(output.find('[' + by), std::string::npos) << output;
    const auto [right, complaint] = run(check + " -DCONTROL");
    EXPECT_EQ(right, 0) << complaint;
  }
};

TEST_F(ClangTidy, FindsUseAfterAMoveInOneBranch) {
  expect_found("moved_in_branch", "bugprone-use-after-move");
}

TEST_F(ClangTidy, FindsUseAfterAMoveInsideALambda) {
  expect_found("moved_in_lambda", "clang-analyzer-cplusplus.Move");
}

/// gather_temporary_gcc
std::string name_of(const testing::TestParamInfo<CompileFail::ParamType>& tested) {
  const auto& [name, compiler] = tested.param;
  return name + (compiler.starts_with("clang") ? "_clang" : "_gcc");
}

INSTANTIATE_TEST_SUITE_P(Cases, CompileFail,
                         testing::Combine(testing::ValuesIn(names_in(VERBATIM_CASES)),
                                          testing::ValuesIn(compilers())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Sources, Legitimate,
                         testing::Combine(testing::ValuesIn(names_in(VERBATIM_LEGITIMATE)),
                                          testing::ValuesIn(compilers())),
                         name_of);

}  // namespace
}  // namespace verbatim::test
