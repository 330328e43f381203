// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where a path leads: to one of our files, or to the kernel's.
///
/// A path may begin at a descriptor of one of our directories, or in one that is the working
/// directory. For the kernel such a descriptor is an empty directory that was removed and had our
/// name. Any process can read from that name which directory it stands for, even one that inherited
/// it as its working directory. For programs that never use our directories this costs one look at
/// a flag.
#include <sys/types.h>

#include <cstddef>
#include <string_view>

#include "preload/system_files.hpp"

namespace verbatim::preload {

class Place {
 public:
  /// The path from a directory (AT_FDCWD: the working directory), as the *at() calls take it.
  /// nullptr is never one of ours.
  Place(int directory, const char* path) noexcept;
  explicit Place(const char* path) noexcept;
  Place(const Place&) = delete;  // path() may point into it.
  Place& operator=(const Place&) = delete;

  [[nodiscard]] bool is_ours() const noexcept { return is_ours_; }
  /// If ours: what is there, and its absolute path.
  [[nodiscard]] const SystemFile& file() const noexcept { return file_; }
  [[nodiscard]] std::string_view name() const noexcept { return {text_, size_}; }
  /// If the kernel's: what to ask it about. As given, unless it leads out of our directories.
  [[nodiscard]] int directory() const noexcept { return directory_; }
  [[nodiscard]] const char* path() const noexcept { return path_; }

 private:
  void follow(const char* path) noexcept;
  void settle(bool began_at_ours) noexcept;
  bool step_up() noexcept;
  void append(std::string_view component) noexcept;

  bool is_ours_ = false;
  bool left_ours_ = false;  // A ".." followed a directory that the kernel does not know.
  bool too_long_ = false;
  int directory_;
  const char* path_;
  std::size_t size_ = 0;
  SystemFile file_;
  char text_[512];  // Longer ones cannot be ours.
};

/// A new descriptor for our directory with that path, or -1 with errno.
int open_directory(std::string_view path, int flags) noexcept;
/// The directory of ours that the descriptor stands for (AT_FDCWD: the working directory): its path
/// and length, without a terminating zero. 0: it is not ours.
std::size_t path_of_directory(int directory, char* text, std::size_t room) noexcept;

/// Call it when the working directory has changed.
void forget_working_directory() noexcept;

}  // namespace verbatim::preload
