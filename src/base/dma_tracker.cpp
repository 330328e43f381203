// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dma_tracker.hpp"

#if VERBATIM_DMA_MODELLED

#include <algorithm>
#include <bit>

#include "verbatim/base/check.hpp"

namespace verbatim::dma::detail {
namespace {

/// All ranges up to the size of a cache line share a level, which leaves fewer levels to search.
constexpr std::size_t kLowestLevel = 6;

std::size_t level_of(const Interval& interval) noexcept {
  const auto last = static_cast<std::uint64_t>(interval.end - interval.begin - 1);
  return std::max(kLowestLevel, static_cast<std::size_t>(std::bit_width(last)));
}

}  // namespace

Tracker::Tracker(std::size_t capacity) {
  check(std::has_single_bit(capacity), "the capacity of a Tracker is a power of two");
  levels_.fill(kNone);
  grow(capacity);
}

std::optional<Interval> Tracker::conflict(const Interval& wanted) const noexcept {
  return find(wanted, [&](const Interval& each) { return each.conflicts(wanted); });
}

std::optional<Interval> Tracker::overlap(const Interval& wanted) const noexcept {
  return find(wanted, [&](const Interval& each) { return each.overlaps(wanted); });
}

Tracker::Id Tracker::insert(const Interval& interval) {
  check(interval.begin < interval.end, "a range in flight is not empty and does not wrap around");
  const std::size_t level = level_of(interval);
  check(level < kLevels, "a range in flight is shorter than half of the address space");
  if (free_ == kNone) grow(2 * slots_.size());
  const Id id = free_;
  Slot& slot = slots_[id];
  free_ = slot.in_cell.next;
  slot.interval = interval;
  slot.level = static_cast<std::uint8_t>(level);
  push<&Slot::in_cell>(buckets_[bucket_of(slot)], id);
  push<&Slot::in_level>(levels_[level], id);
  ++level_sizes_[level];
  used_levels_ |= std::uint64_t{1} << level;
  ++size_;
  return id;
}

void Tracker::erase(Id id) noexcept {
  Slot& slot = slots_[id];
  const std::size_t level = slot.level;
  remove<&Slot::in_cell>(buckets_[bucket_of(slot)], id);
  remove<&Slot::in_level>(levels_[level], id);
  if (--level_sizes_[level] == 0) used_levels_ &= ~(std::uint64_t{1} << level);
  slot.in_cell.next = free_;
  free_ = id;
  --size_;
}

template <class Matches>
std::optional<Interval> Tracker::find(const Interval& wanted, Matches matches) const noexcept {
  for (std::uint64_t levels = used_levels_; levels != 0; levels &= levels - 1) {
    const auto level = static_cast<std::size_t>(std::countr_zero(levels));
    // A range that starts in the cell before may still reach into the wanted one, because it is at
    // most one cell long.
    const std::uintptr_t first = std::max<std::uintptr_t>(wanted.begin >> level, 1) - 1;
    const std::uintptr_t last = (wanted.end - 1) >> level;
    if (last - first >= level_sizes_[level]) {  // There are fewer ranges than cells.
      if (const auto found = find_in<&Slot::in_level>(levels_[level], matches)) return found;
      continue;
    }
    for (std::uintptr_t cell = first; cell <= last; ++cell)
      if (const auto found = find_in<&Slot::in_cell>(buckets_[bucket(cell, level)], matches))
        return found;
  }
  return std::nullopt;
}

template <Tracker::Links Tracker::Slot::* List, class Matches>
std::optional<Interval> Tracker::find_in(Id first, Matches matches) const noexcept {
  for (Id id = first; id != kNone; id = (slots_[id].*List).next)
    if (matches(slots_[id].interval)) return slots_[id].interval;
  return std::nullopt;
}

template <Tracker::Links Tracker::Slot::* List>
void Tracker::push(Id& head, Id id) noexcept {
  slots_[id].*List = {.next = head, .previous = kNone};
  if (head != kNone) (slots_[head].*List).previous = id;
  head = id;
}

template <Tracker::Links Tracker::Slot::* List>
void Tracker::remove(Id& head, Id id) noexcept {
  const Links links = slots_[id].*List;
  if (links.previous == kNone) {
    head = links.next;
  } else {
    (slots_[links.previous].*List).next = links.next;
  }
  if (links.next != kNone) (slots_[links.next].*List).previous = links.previous;
}

std::size_t Tracker::bucket(std::uintptr_t cell, std::size_t level) const noexcept {
  const std::uint64_t mixed = (std::uint64_t{cell} * kLevels + level) * 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(mixed >> 32) & (buckets_.size() - 1);
}

std::size_t Tracker::bucket_of(const Slot& slot) const noexcept {
  return bucket(slot.interval.begin >> slot.level, slot.level);
}

/// Called when no slot is free, so every existing slot is in use.
void Tracker::grow(std::size_t capacity) {
  const std::size_t before = slots_.size();
  slots_.resize(capacity);
  buckets_.assign(2 * slots_.size(), kNone);
  for (Id id = 0; id < before; ++id) push<&Slot::in_cell>(buckets_[bucket_of(slots_[id])], id);
  for (std::size_t id = before; id < slots_.size(); ++id) {
    slots_[id].in_cell.next = free_;
    free_ = static_cast<Id>(id);
  }
}

}  // namespace verbatim::dma::detail

#endif
