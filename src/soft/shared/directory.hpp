// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where the processes of one user find each other: a directory with one file per process.
///
/// A process claims a slot by locking its file (open file description locks: two engines in one
/// process also exclude each other). Byte 0 is the right to the slot: a process that removes what a
/// dead one left holds it for a moment. Byte 1 is the life of the process, and only the owner locks
/// it. The kernel drops it at exit, at kill -9 and at exec; a forked child closes its copy at once.
/// The next process to start takes over what the dead left behind.
///
/// The directory is `VERBATIM_SOFT_DIR`, made absolute; else /dev/shm/verbatim-<uid>; else, if
/// another user has taken that name, /run/user/<uid>/verbatim. A directory that we created has the
/// sticky bit, and the last process to exit removes it. One that the user created stays.
///
/// Threads: any; a Directory is an immutable value. No locks except those on files. Not hot.
#include <cstddef>
#include <cstdint>
#include <string>

#include "verbatim/base/error.hpp"

namespace verbatim::engine {

/// An open, locked segment file, and its slot.
struct ClaimedSlot {
  std::uint32_t slot;
  int fd;
};

/// The path of a file in the directory. Does not allocate, because memory may have run out.
struct FilePath {
  char text[512];
};

/// Where to look for the directory if the user names none, in this order. The second counts only if
/// the system created `second_parent` for the user, and others cannot write there.
struct DirectoryPlaces {
  std::string first;
  std::string second_parent;
  std::string second;
};

class Directory {
 public:
  /// Creates the directory if needed. Refuses, by name, a directory that another user owns, that is
  /// a link, or that others may enter.
  [[nodiscard]] static Result<Directory> open();
  /// Like open(), but at other places than the default ones: for tests.
  [[nodiscard]] static Result<Directory> open_at(const DirectoryPlaces& places);

  /// Where open() looks; nothing is made, and nothing need be there.
  [[nodiscard]] static std::string usual_path();

  /// Takes the lowest free slot; what earlier owners left of it is removed first.
  [[nodiscard]] Result<ClaimedSlot> claim() const;
  /// Removes the slot's files; the last process to exit also removes those of the dead. The
  /// directory is removed if it is empty and ours. The caller still holds the slot's lock.
  void release(std::uint32_t slot) const noexcept;

  /// The segment file of a slot, open for reading and writing.
  [[nodiscard]] Result<int> open_slot(std::uint32_t slot) const noexcept;
  /// Whether the owner of this open segment file is alive.
  [[nodiscard]] static bool is_held(int fd) noexcept;
  /// Whether the path still leads to the directory that was opened. Not after chroot(), for
  /// example.
  [[nodiscard]] bool is_reachable() const noexcept;

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
  // Both need the slot's lock. The second leaves the segment, with the lock.
  void remove_files(std::uint32_t slot) const noexcept;
  void remove_other_files(std::uint32_t slot) const noexcept;
  void sweep() const noexcept;
  [[nodiscard]] FilePath segment_file(std::uint32_t slot) const noexcept {
    return path_of('p', slot, 0);
  }

  std::string path_;
  std::uint64_t fabric_id_;
};

}  // namespace verbatim::engine
