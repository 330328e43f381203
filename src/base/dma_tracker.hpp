// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which bytes are in flight: exact ranges, and whether a new one may join them.
///
/// A hierarchical hash grid, as used for collision detection. A range of length L is on level
/// ceil(log2 L), in the cell of 2^level bytes that contains its start. Anything that overlaps it
/// therefore starts in a few cells of each level, and the cost depends neither on the number of
/// ranges nor on their length.
///
/// Not thread-safe: the model locks it. It allocates when it has to grow, and never shrinks.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "verbatim/base/dma_model.hpp"

namespace verbatim::dma::detail {

struct Operation;

/// [begin, end), not empty.
struct Interval {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  Direction direction = Direction::device_reads;
  const Operation* operation = nullptr;

  [[nodiscard]] bool overlaps(const Interval& other) const noexcept {
    return begin < other.end && other.begin < end;
  }
  /// Readers share; a writer shares with nobody.
  [[nodiscard]] bool conflicts(const Interval& other) const noexcept {
    return overlaps(other) &&
           (direction == Direction::device_writes || other.direction == Direction::device_writes);
  }
};

class Tracker {
 public:
  using Id = std::uint32_t;

  /// Room for this many ranges before the first allocation; a power of two.
  explicit Tracker(std::size_t capacity = 1024);

  /// A range in flight that conflicts with the new one.
  [[nodiscard]] std::optional<Interval> conflict(const Interval& wanted) const noexcept;
  /// A range in flight that shares a byte with this one, reading or writing.
  [[nodiscard]] std::optional<Interval> overlap(const Interval& wanted) const noexcept;

  /// Adds a range, even if it conflicts.
  [[nodiscard]] Id insert(const Interval& interval);
  void erase(Id id) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return slots_.size(); }

 private:
  static constexpr Id kNone = ~Id{0};
  static constexpr std::size_t kLevels = 64;

  /// Neighbours in a list; kNone at its ends.
  struct Links {
    Id next = kNone;
    Id previous = kNone;
  };
  struct Slot {
    Interval interval;
    Links in_cell;   // Those of one bucket of the hash table. Free slots use only `next`.
    Links in_level;  // Those of one level.
    std::uint8_t level = 0;
  };

  template <class Matches>
  [[nodiscard]] std::optional<Interval> find(const Interval& wanted,
                                             Matches matches) const noexcept;
  template <Links Slot::* List, class Matches>
  [[nodiscard]] std::optional<Interval> find_in(Id first, Matches matches) const noexcept;
  template <Links Slot::* List>
  void push(Id& head, Id id) noexcept;
  template <Links Slot::* List>
  void remove(Id& head, Id id) noexcept;

  [[nodiscard]] std::size_t bucket(std::uintptr_t cell, std::size_t level) const noexcept;
  [[nodiscard]] std::size_t bucket_of(const Slot& slot) const noexcept;
  void grow(std::size_t capacity);

  std::vector<Slot> slots_;
  std::vector<Id> buckets_;  // Twice as many as slots: short lists.
  std::array<Id, kLevels> levels_;
  std::array<std::uint32_t, kLevels> level_sizes_{};
  std::uint64_t used_levels_ = 0;  // One bit each.
  Id free_ = kNone;
  std::size_t size_ = 0;
};

}  // namespace verbatim::dma::detail
