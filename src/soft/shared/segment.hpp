// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file This process's own segment: the only one that it allocates in.
///
/// Owns the slot's file and lock, and their mappings. The file is sparse. Everything is backed
/// before it is handed out, so that a full /dev/shm is an error at creation (ENOSPC, with the
/// directory's name) and never a SIGBUS on the data path. Which pages of the tables are backed is
/// published, because peers get indices from keys and queue pair numbers. Only we may truncate the
/// file, and do not; fault_guard.hpp handles the case that another process of this user does.
///
/// Threads: any that creates or destroys objects. Lock: `mutex_` (rank `segment`), held during file
/// system calls; nothing is locked inside it. at(), shared() and trusted_regions() are hot and take
/// none.
#include <bitset>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::engine {

class OwnSegment {
 public:
  [[nodiscard]] static Result<std::unique_ptr<OwnSegment>> create(const Directory& directory);
  ~OwnSegment();
  OwnSegment(const OwnSegment&) = delete;
  OwnSegment& operator=(const OwnSegment&) = delete;

  [[nodiscard]] Segment& shared() noexcept { return *segment_; }
  /// Our regions as they were registered, where no peer can write; same indices as in the segment.
  [[nodiscard]] SharedRegion* trusted_regions() noexcept { return regions_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  /// What this process writes into locks: the slot, and bits that its predecessor did not have.
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }
  /// Whether membarrier's expedited commands reach this process, and it may give them.
  [[nodiscard]] bool is_ordered() const noexcept { return is_ordered_; }

  /// Makes sure that an entry of one of the tables is backed by memory, and publishes that.
  [[nodiscard]] Result<void> back(const void* entry, std::size_t bytes);
  /// The same for a region and its mark, and all before it: publishes their number.
  [[nodiscard]] Result<void> back_region(std::uint32_t index);
  /// Zeroed pages for a ring; their offset in the segment.
  [[nodiscard]] Result<std::uint64_t> allocate(std::uint64_t bytes);
  void free(std::uint64_t offset, std::uint64_t bytes) noexcept;
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) noexcept {
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(segment_) + offset);
  }

  /// Removes the files, once: the slot may belong to another process afterwards.
  void remove_files() noexcept;
  // The free list is consistent while a fork happens.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork() noexcept { mutex_.unlock(); }
  /// In the child of a fork: leaves the files alone, and drops the parent's lock.
  void abandon() noexcept;
  [[nodiscard]] bool is_abandoned() const noexcept { return abandoned_; }

 private:
  class Draft;
  OwnSegment(Directory directory, ClaimedSlot claimed, Segment* mapped, SharedRegion* regions);
  [[nodiscard]] Result<void> reserve(std::uint64_t offset, std::uint64_t bytes);
  void add_free(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] Result<void> back_pages(std::uint64_t offset, std::uint64_t bytes);

  Directory directory_;
  std::uint32_t slot_;
  int fd_;
  Segment* segment_;
  SharedRegion* regions_;
  std::uint32_t tag_;
  bool is_ordered_ = false;  // Peers can write the copy in the segment.
  bool abandoned_ = false;
  bool removed_ = false;
  Ranked<LockRank::segment, std::mutex> mutex_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset -> bytes
  std::bitset<kTablePages> backed_;              // As we know it: peers can write what they see.
  std::uint32_t regions_backed_ = 0;
};

/// ftruncate(), but beyond the limit of file sizes (`ulimit -f`) it is an error, EFBIG, and no
/// signal that ends the program. Returns an errno, or 0.
[[nodiscard]] int set_file_size(int fd, std::uint64_t bytes) noexcept;

/// The errno of a verb that could not get its part of the segment: the system's reason, if there is
/// one.
[[nodiscard]] inline int errno_of(const Error& error) noexcept {
  return error.os_error != 0 ? error.os_error : ENOMEM;
}

/// A tag is the slot, and 21 random bits that distinguish its users.
[[nodiscard]] constexpr std::uint32_t tag_of(std::uint32_t slot, std::uint64_t nonce) noexcept {
  return static_cast<std::uint32_t>(nonce) << 11 | (slot + 1);
}
[[nodiscard]] constexpr std::uint32_t slot_of_tag(std::uint32_t tag) noexcept {
  return (tag & 0x7ff) - 1;
}

}  // namespace verbatim::engine
