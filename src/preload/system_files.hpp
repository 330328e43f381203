// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the kernel would show of our devices: their nodes in /dev, their attributes in /sys.
///
/// Programs look there past the verbs. Only the exact paths of our own devices are answered;
/// nothing exists on disk. These functions are called from hooks in any program, at any time:
/// they allocate nothing and keep no state.
#include <cstddef>
#include <cstdint>

namespace verbatim::preload {

struct SystemFile {
  enum class Kind : std::uint8_t { attribute, directory, node };
  Kind kind;
  std::uint32_t device;    ///< Which of our devices it belongs to.
  std::size_t length = 0;  ///< Of an attribute's text, which ends with a newline as in sysfs.
  char text[128] = {};
};

/// Whether the path is one of ours; then `file` says what is there.
[[nodiscard]] bool find_system_file(const char* path, SystemFile& file) noexcept;

}  // namespace verbatim::preload
