// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Sets variables of this process's environment for the time of a test.
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::test {

/// Removes the variables that the launcher of a job sets; set() and unset() then change more. The
/// destructor restores everything.
class ScopedEnvironment {
 public:
  ScopedEnvironment() {
    for (const char* name :
         {"VERBATIM_RANK", "VERBATIM_WORLD", "VERBATIM_COORDINATOR", "VERBATIM_SECRET",
          "VERBATIM_SECRET_FILE", "VERBATIM_JOB", "PMIX_NAMESPACE"})
      unset(name);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() {
    while (!before_.empty()) {
      const auto& [name, value] = before_.back();
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
      before_.pop_back();
    }
  }
  void set(const char* name, const std::string& value) {
    remember(name);
    setenv(name, value.c_str(), 1);
  }
  void unset(const char* name) {
    remember(name);
    unsetenv(name);
  }

 private:
  void remember(const char* name) {
    const char* const value = std::getenv(name);
    before_.emplace_back(name, value != nullptr ? std::optional<std::string>{value} : std::nullopt);
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace verbatim::test
