// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Memory objects: the memory of Buffers, which peers can map.
///
/// A MemoryObjects belongs to one engine, and owns the objects: descriptors, mappings, and their
/// places in the segment's table. A large allocation has its own object. Small ones share objects,
/// in units of pages, so thousands of them need only a few descriptors. Freed memory goes back to
/// the system at once, and is zero when it is allocated again. Memory that is never freed (a
/// stopped peer may still write to it) keeps only its own pages.
///
/// Forked children do not inherit the mappings. A child starts with no objects, whatever other
/// threads did while it was created.
///
/// Threads: any that allocates, frees or registers memory; the helper, which looks objects up.
/// Lock: `mutex_` (rank `objects`), held during system calls; inside it only `segment`. Not hot.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "soft/memory/page_map.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/segment.hpp"

namespace verbatim::engine {

class Engine;

enum class ObjectPages : std::uint8_t { ordinary, transparent_huge, reserved_huge };

class MemoryObjects {
 public:
  explicit MemoryObjects(OwnSegment& own) noexcept : own_(own) {}
  ~MemoryObjects();
  MemoryObjects(const MemoryObjects&) = delete;
  MemoryObjects& operator=(const MemoryObjects&) = delete;

  /// Zeroed memory. nullptr with errno.
  [[nodiscard]] void* allocate(std::size_t bytes, ObjectPages pages) noexcept;
  /// Frees what allocate() returned, with the same size. Returns an errno, or 0.
  [[nodiscard]] int free(void* address, std::size_t bytes) noexcept;

  /// The place of a range, as SharedRegion has it.
  struct Place {
    std::uint32_t object = 0;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] Place find(std::uint64_t address, std::uint64_t length) noexcept;

  /// Lets peers open one of our descriptors. Returns the index in the table + 1, or 0: the table is
  /// full.
  [[nodiscard]] std::uint32_t publish(int fd, std::uint64_t inode, std::uint64_t bytes) noexcept;
  void withdraw(std::uint32_t index_plus_one) noexcept;

  // Nothing changes while a fork happens; the child closes its copies of the descriptors.
  void before_fork() noexcept { mutex_.lock(); }
  void after_fork_in_parent() noexcept { mutex_.unlock(); }
  void abandon() noexcept;

 private:
  struct Object {
    std::uint64_t bytes = 0;
    std::uint32_t published = 0;  // Its place in the table + 1.
    int fd = -1;
    std::unique_ptr<PageMap> pages;  // Set if small allocations share it.
  };
  using All = std::map<std::uint64_t, Object>;  // By address.

  // Requires the lock.
  [[nodiscard]] All::iterator make(std::size_t bytes, bool huge);
  void remove(All::iterator object) noexcept;
  [[nodiscard]] void* allocate_small(std::uint32_t pages);
  [[nodiscard]] int free_small(All::iterator object, std::uint64_t offset,
                               std::uint32_t pages) noexcept;
  [[nodiscard]] std::uint32_t publish_locked(int fd, std::uint64_t inode,
                                             std::uint64_t bytes) noexcept;
  void withdraw_locked(std::uint32_t index_plus_one) noexcept;

  OwnSegment& own_;
  Ranked<LockRank::objects, std::mutex> mutex_;
  All objects_;
  std::uint32_t shared_objects_ = 0;                         // Those with a PageMap.
  std::array<std::uint64_t, kMemoryObjects / 64> places_{};  // Taken ones of the table.
  std::atomic<bool> abandoned_{false};
};

}  // namespace verbatim::engine
