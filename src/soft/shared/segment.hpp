// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file This process's own segment: the only one that it allocates in.
///
/// The file is sparse. What is handed out is backed first, so that a full /dev/shm is an error at
/// creation and never a SIGBUS on the data path.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::engine {

class OwnSegment {
 public:
  [[nodiscard]] static Result<std::unique_ptr<OwnSegment>> create(const Directory& directory);
  ~OwnSegment();
  OwnSegment(const OwnSegment&) = delete;
  OwnSegment& operator=(const OwnSegment&) = delete;

  [[nodiscard]] Segment& shared() noexcept { return *segment_; }
  /// Our regions as they were registered, where no peer can write; indexed as those in the segment.
  [[nodiscard]] SharedRegion* trusted_regions() noexcept { return regions_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  /// What this process writes into locks: the slot, and bits that its predecessor did not have.
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }

  /// Makes sure that an entry of one of the tables is backed by memory.
  [[nodiscard]] Result<void> back(const void* entry, std::size_t bytes);
  /// Zeroed pages for a ring; their offset in the segment.
  [[nodiscard]] Result<std::uint64_t> allocate(std::uint64_t bytes);
  void free(std::uint64_t offset, std::uint64_t bytes) noexcept;
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) noexcept {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(segment_) + offset);
  }

  /// Removes the files, once: the slot may be another process's afterwards.
  void remove_files() noexcept;
  /// In the child of a fork: leaves the files alone, and lets go of the parent's lock.
  void abandon() noexcept;

 private:
  OwnSegment(const Directory& directory, ClaimedSlot claimed, Segment* mapped,
             SharedRegion* regions) noexcept;
  [[nodiscard]] Result<void> reserve(std::uint64_t offset, std::uint64_t bytes);

  Directory directory_;
  std::uint32_t slot_;
  int fd_;
  Segment* segment_;
  SharedRegion* regions_;
  std::uint32_t tag_;
  bool abandoned_ = false;
  bool removed_ = false;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
};

/// When the process started, in clock ticks; 0 if there is no such process.
[[nodiscard]] std::uint64_t start_time_of(std::uint32_t pid);
/// The inode of our pid namespace.
[[nodiscard]] std::uint64_t own_pid_namespace() noexcept;

/// A tag names the slot, and 21 random bits that tell its users apart.
[[nodiscard]] constexpr std::uint32_t tag_of(std::uint32_t slot, std::uint64_t nonce) noexcept {
  return static_cast<std::uint32_t>(nonce) << 11 | (slot + 1);
}
[[nodiscard]] constexpr std::uint32_t slot_of_tag(std::uint32_t tag) noexcept {
  return (tag & 0x7ff) - 1;
}

}  // namespace verbatim::engine
