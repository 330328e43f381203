// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The files in the directory of the software device that belong to slots: a kind, a slot and
/// a number, as in "p3-0" and "m3-17". Files with any other name belong to somebody else.
///
/// Threads: any. Does not allocate, because memory may have run out, and a signal handler that
/// interrupted malloc() may have called exit(): opendir() would wait for ever. Not hot.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "soft/shared/layout.hpp"

namespace verbatim::engine {

struct SlotFile {
  int folder;        ///< For openat() and so on.
  const char* name;  ///< In that folder, until the next file.
  char kind;         ///< 'p' is a process's segment.
  std::uint32_t slot;
  std::uint32_t number;

  [[nodiscard]] bool is_segment() const noexcept { return kind == 'p' && number == 0; }
};

/// What the name of an entry stands for; empty: it belongs to somebody else.
[[nodiscard]] inline std::optional<SlotFile> slot_file(int folder, const char* name) noexcept {
  SlotFile file{.folder = folder, .name = name, .kind = 0, .slot = 0, .number = 0};
  char rest = 0;
  if (std::sscanf(name, "%c%u-%u%c", &file.kind, &file.slot, &file.number, &rest) != 3 ||
      file.slot >= kProcessSlots)
    return std::nullopt;
  return file;
}

/// Until `visit` returns false. Returns 0, or the errno of a directory that cannot be read.
template <class Visit>
int for_each_slot_file(const std::string& path, Visit&& visit) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return errno;
  alignas(dirent64) std::byte entries[2048]{};
  bool goes_on = true;
  ssize_t bytes = 0;
  while (goes_on && (bytes = getdents64(folder, entries, sizeof entries)) > 0) {
    for (ssize_t at = 0; goes_on && at < bytes;) {
      const auto& entry = *reinterpret_cast<const dirent64*>(entries + at);
      at += entry.d_reclen;
      if (const auto file = slot_file(folder, entry.d_name)) goes_on = visit(*file);
    }
  }
  const int failed = bytes < 0 ? errno : 0;
  ::close(folder);
  return failed;
}

}  // namespace verbatim::engine
