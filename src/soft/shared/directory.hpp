// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where the processes of one user find each other: a directory of one file per process.
///
/// A process claims a slot by locking its file (open file description locks: two engines in one
/// process exclude each other too). Byte 0 is the right to the slot: who removes what a dead
/// process left holds it for a moment. Byte 1 is the process's life, and only the owner locks it:
/// the kernel drops it at exit, at kill -9 and at exec; a forked child closes its copy at once. The
/// next process to start takes over what the dead left behind.
///
/// The directory is `VERBATIM_SOFT_DIR`; else /dev/shm/verbatim-<uid>; else, where another user has
/// taken that name, /run/user/<uid>/verbatim. One that we made has the sticky bit, and the last
/// process out removes it; one that the user made stays.
///
/// Threads: any; a Directory is a value that does not change. No locks but those on files. Not hot.
#include <cstddef>
#include <cstdint>
#include <string>

#include "verbatim/base/error.hpp"

namespace verbatim::engine {

/// An open, locked segment file, and the slot it stands for.
struct ClaimedSlot {
  std::uint32_t slot;
  int fd;
};

/// The path of a file in the directory, without memory of its own: there may be none.
struct FilePath {
  char text[512];
};

/// Where the directory is looked for when the user names none, in this order. The second counts
/// only where the system made `second_parent` for the user, closed to the writing of others.
struct DirectoryPlaces {
  std::string first;
  std::string second_parent;
  std::string second;
};

class Directory {
 public:
  /// Creates the directory if needed. One that another user owns, that is a link, or that others
  /// may enter is refused by name.
  [[nodiscard]] static Result<Directory> open();
  /// As open(), but at other places than the default ones: for tests.
  [[nodiscard]] static Result<Directory> open_at(const DirectoryPlaces& places);

  /// Takes the lowest free slot; a dead owner's files are removed first.
  [[nodiscard]] Result<ClaimedSlot> claim() const;
  /// Removes the slot's files; the last one out also those of the dead. The directory goes when it
  /// is empty and ours. The caller still holds the slot's lock.
  void release(std::uint32_t slot) const noexcept;

  /// The segment file of a slot, open for reading and writing.
  [[nodiscard]] Result<int> open_slot(std::uint32_t slot) const noexcept;
  /// Whether the owner of this open segment file lives.
  [[nodiscard]] static bool is_held(int fd) noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Equal for processes that can reach each other; never 0.
  [[nodiscard]] std::uint64_t fabric_id() const noexcept { return fabric_id_; }
  /// The path of a file that belongs to a slot: `kind` and a number tell its files apart.
  [[nodiscard]] FilePath path_of(char kind, std::uint32_t slot,
                                 std::uint32_t number) const noexcept;
  [[nodiscard]] std::string file(char kind, std::uint32_t slot, std::uint32_t number) const {
    return path_of(kind, slot, number).text;
  }

 private:
  Directory(std::string path, std::uint64_t fabric_id)
      : path_(std::move(path)), fabric_id_(fabric_id) {}
  void remove_files(std::uint32_t slot) const noexcept;  // Needs the slot's lock.
  void sweep() const noexcept;
  [[nodiscard]] FilePath segment_file(std::uint32_t slot) const noexcept {
    return path_of('p', slot, 0);
  }

  std::string path_;
  std::uint64_t fabric_id_;
};

}  // namespace verbatim::engine
