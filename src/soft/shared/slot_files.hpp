// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The files in the directory of the software device that belong to slots: a kind, a slot and
/// a number, as in "p3-0" and "m3-17". Files with any other name belong to somebody else.
///
/// Threads: any. Allocates only what opendir() does. Not hot.
#include <dirent.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
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

/// Until `visit` returns false. Returns 0, or the errno of a directory that cannot be read.
template <class Visit>
int for_each_slot_file(const std::string& path, Visit&& visit) {
  DIR* const all = opendir(path.c_str());
  if (all == nullptr) return errno;
  while (const dirent* const entry = readdir(all)) {
    SlotFile file{.folder = dirfd(all), .name = entry->d_name, .kind = 0, .slot = 0, .number = 0};
    char rest = 0;
    if (std::sscanf(file.name, "%c%u-%u%c", &file.kind, &file.slot, &file.number, &rest) == 3 &&
        file.slot < kProcessSlots && !visit(file))
      break;
  }
  closedir(all);
  return 0;
}

}  // namespace verbatim::engine
