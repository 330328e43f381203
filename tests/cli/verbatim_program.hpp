// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The program `verbatim`, run as a process by its tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/command.hpp"

namespace verbatim::test {

/// The program's own name in front of its arguments.
inline std::vector<std::string> verbatim_words(std::vector<std::string> words) {
  words.insert(words.begin(), VERBATIM_PROGRAM);
  return words;
}

/// With these arguments, and these variables on top of ours: see Command.
inline Command::Outcome run_verbatim(std::vector<std::string> words,
                                     const std::vector<std::string>& variables = {}) {
  return run_command(verbatim_words(std::move(words)), variables);
}

/// The variable by which it loads the libibverbs of the tests.
inline const std::string kFakeLibrary = "VERBATIM_LIBIBVERBS=" VERBATIM_FAKE_LIBIBVERBS;

/// What it printed; discarded() if that is no JSON.
inline nlohmann::json json_of(const Command::Outcome& outcome) {
  return nlohmann::json::parse(outcome.output, nullptr, false);
}

/// A subcommand of which each test says only the arguments, on soft0.
class SoftSubcommand {
 public:
  explicit SoftSubcommand(const char* name) : name_(name) {}
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), name_);
    return verbatim_words(std::move(arguments));
  }
  [[nodiscard]] Command::Outcome operator()(std::vector<std::string> arguments) const {
    return run_command(words(std::move(arguments)), variables());
  }
  static std::vector<std::string> variables() { return {"VERBATIM_DEVICE=soft0"}; }

 private:
  const char* name_;
};

/// An end of `bench` or `ping` that listens on a port of the system's choice.
struct ListeningEnd {
  explicit ListeningEnd(const SoftSubcommand& subcommand, std::vector<std::string> more = {})
      : command(words(subcommand, std::move(more)), SoftSubcommand::variables()) {
    EXPECT_TRUE(command.prints("listening"));
    const auto said = nlohmann::json::parse(command.output(), nullptr, false);
    if (said.is_object()) address = said.value("listening", "");
  }
  static std::vector<std::string> words(const SoftSubcommand& subcommand,
                                        std::vector<std::string> more) {
    more.insert(more.begin(), {"--listen", "--port", "0", "--json"});
    return subcommand.words(std::move(more));
  }
  [[nodiscard]] int port() const { return std::stoi(address.substr(address.rfind(':') + 1)); }

  Command command;
  std::string address;
};

/// A mistake in the command line: nothing is done, and one line says what is wrong.
inline void expect_mistake(const Command::Outcome& outcome, const std::string& help) {
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  EXPECT_THAT(outcome.output, testing::IsEmpty());
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_THAT(outcome.errors, testing::HasSubstr(help));
}

}  // namespace verbatim::test
