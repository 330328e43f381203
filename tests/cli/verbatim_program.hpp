// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The program `verbatim`, run as a process by its tests.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/command.hpp"

namespace verbatim::test {

/// With these arguments, and these variables on top of ours: see Command.
inline Command::Outcome run_verbatim(std::vector<std::string> words,
                                     const std::vector<std::string>& variables = {}) {
  words.insert(words.begin(), VERBATIM_PROGRAM);
  return run_command(std::move(words), variables);
}

/// What it printed; discarded() if that is no JSON.
inline nlohmann::json json_of(const Command::Outcome& outcome) {
  return nlohmann::json::parse(outcome.output, nullptr, false);
}

}  // namespace verbatim::test
