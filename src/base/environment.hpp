// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Reads the environment. A program with raised privileges (setuid) gets nothing from it.
#include <cstdlib>
#include <string_view>

namespace verbatim {

/// The variable's value, or nullptr. All variables are read through this: the user who starts a
/// program with raised privileges must not choose what it loads or where it writes.
[[nodiscard]] inline const char* environment(const char* name) noexcept {
  return secure_getenv(name);
}
[[nodiscard]] inline std::string_view environment(const char* name,
                                                  std::string_view otherwise) noexcept {
  const char* const value = environment(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace verbatim
