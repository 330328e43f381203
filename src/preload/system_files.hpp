// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the kernel would show of our devices: their nodes in /dev, their attributes in /sys.
///
/// Programs look there without using the verbs. The class directories are ours too, with the
/// kernel's entries, if it has any, and our devices. Nothing exists on disk. Hooks call these
/// functions in any program, at any time: they allocate nothing and keep no state.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbatim::preload {

struct SystemFile {
  enum class Kind : std::uint8_t { attribute, directory, node };
  Kind kind = Kind::directory;
  bool is_class = false;     ///< A directory that may also contain the kernel's devices.
  std::uint32_t device = 0;  ///< Which of our devices it belongs to.
  std::uint64_t number = 0;  ///< Like an inode number: always the same, and never 0.
  std::size_t length =
      0;  ///< Length of an attribute's text, which ends with a newline as in sysfs.
  char text[128] = {};
};

/// Whether a path, absolute and without "." or "..", is one of ours; if so, `file` says what is
/// there.
[[nodiscard]] bool find_system_file(std::string_view path, SystemFile& file) noexcept;

struct SystemEntry {
  SystemFile::Kind kind;
  std::uint64_t number;
  char name[32];
};

/// The entries of one of our directories, one after the other; false after the last.
[[nodiscard]] bool list_system_directory(std::string_view path, std::size_t index,
                                         SystemEntry& entry) noexcept;

/// While it lives, nothing is ours in this thread: the real library looks for its own devices, and
/// must not take ours for the kernel's.
class DevicesHidden {
 public:
  DevicesHidden() noexcept { ++depth; }
  ~DevicesHidden() { --depth; }
  DevicesHidden(const DevicesHidden&) = delete;
  DevicesHidden& operator=(const DevicesHidden&) = delete;
  [[nodiscard]] static bool now() noexcept { return depth != 0; }

 private:
  static constinit thread_local int depth;
};

}  // namespace verbatim::preload
