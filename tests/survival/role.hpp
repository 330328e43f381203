// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A role that registers itself: `const Role kWriter{"writer", &play_writer};` in the file of
/// the test that starts it (process.hpp).
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::test {

class Role {
 public:
  using Play = int (*)(const std::vector<std::string>& role);
  Role(std::string_view name, Play play) noexcept : name_(name), play_(play), next_(all) {
    all = this;
  }
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;

  /// Returns nullptr if there is no role of that name.
  [[nodiscard]] static Play find(std::string_view name) noexcept {
    for (const Role* each = all; each != nullptr; each = each->next_)
      if (each->name_ == name) return each->play_;
    return nullptr;
  }

 private:
  static inline const Role* all = nullptr;
  std::string_view name_;
  Play play_;
  const Role* next_;
};

}  // namespace verbatim::test
