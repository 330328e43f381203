// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the environment says: to a program that runs with raised rights (setuid), nothing.
#include <cstdlib>
#include <string_view>

namespace verbatim {

/// The variable's value, or nullptr. Every variable is read through this: who starts a program with
/// raised rights must not choose what it loads or where it writes.
[[nodiscard]] inline const char* environment(const char* name) noexcept {
  return secure_getenv(name);
}
[[nodiscard]] inline std::string_view environment(const char* name,
                                                  std::string_view otherwise) noexcept {
  const char* const value = environment(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace verbatim
