// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where the processes of one user find each other: a directory of one file per process.
///
/// A process claims a slot by locking its file (an open file description lock: two engines in one
/// process exclude each other too). The lock is the process's life: the kernel drops it at exit, at
/// kill -9 and at exec; a forked child closes its copy at once. The next process to start takes
/// over what the dead left behind.
#include <cstdint>
#include <optional>
#include <string>

#include "verbatim/base/error.hpp"

namespace verbatim::engine {

/// An open, locked segment file, and the slot it stands for.
struct ClaimedSlot {
  std::uint32_t slot;
  int fd;
};

class Directory {
 public:
  /// Creates the directory if needed. One that another user owns, that is a link, or that others
  /// may enter is refused by name.
  [[nodiscard]] static Result<Directory> open();

  /// Takes the lowest free slot; a dead owner's files are removed first.
  [[nodiscard]] Result<ClaimedSlot> claim() const;
  /// Removes the slot's files, and those of the dead. The directory goes when it is empty. The
  /// caller still holds the slot's lock.
  void release(std::uint32_t slot) const noexcept;

  /// The segment file of a slot, open for reading and writing.
  [[nodiscard]] Result<int> open_slot(std::uint32_t slot) const;
  /// Whether a process holds the lock of this open segment file.
  [[nodiscard]] static bool is_held(int fd) noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Equal for processes that can reach each other; never 0.
  [[nodiscard]] std::uint64_t fabric_id() const noexcept { return fabric_id_; }
  /// The path of a file that belongs to a slot: `kind` and a number tell its files apart.
  [[nodiscard]] std::string file(char kind, std::uint32_t slot, std::uint32_t number) const;

 private:
  Directory(std::string path, std::uint64_t fabric_id)
      : path_(std::move(path)), fabric_id_(fabric_id) {}
  void remove_files(std::uint32_t slot) const noexcept;  // Needs the slot's lock.
  [[nodiscard]] std::string segment_file(std::uint32_t slot) const { return file('p', slot, 0); }

  std::string path_;
  std::uint64_t fabric_id_;
};

}  // namespace verbatim::engine
