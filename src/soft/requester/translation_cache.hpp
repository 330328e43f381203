// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a queue pair has learned about memory keys, and how it notices that this is out of
/// date.
///
/// A request is checked against key, domain, bounds and rights of two regions, and against the
/// state of two queue pairs. All of that changes rarely. So a queue pair keeps the answers, and two
/// counters tell whether they are still valid. Whatever takes something away from requesters (an
/// error, a deregistration, a change of rights) first makes the change and then increments the
/// counter.
///
/// A member of the queue pair: used in the posting thread, under `queue_pair`. Hot.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "soft/shared/layout.hpp"

namespace verbatim::engine {

/// A registered range that was checked, mapped here.
struct alignas(64) KnownRange {
  std::uint32_t key = 0;
  std::uint64_t base = 0;
  std::uint64_t length = 0;
  std::byte* direct = nullptr;  ///< Where `base` is.
  /// How many offsets have room for a word after them.
  std::uint64_t words = 0;
};

/// By key; a newer range replaces an older one.
class KnownRanges {
 public:
  /// Finds the range. False: not known. `size` is not 0.
  [[nodiscard, gnu::always_inline]] bool find(std::uint32_t key, std::uint64_t address,
                                              std::uint64_t size,
                                              std::byte*& found) const noexcept {
    const KnownRange& range = at(key);
    const std::uint64_t offset = address - range.base;
    const std::uint64_t length = range.length;
    if (range.key != key || offset > length || size > length - offset) [[unlikely]]
      return false;
    found = range.direct + offset;
    return true;
  }
  /// The same for a word.
  [[nodiscard, gnu::always_inline]] bool find_word(std::uint32_t key, std::uint64_t address,
                                                   std::byte*& found) const noexcept {
    const KnownRange& range = at(key);
    const std::uint64_t offset = address - range.base;
    if (range.key != key || offset >= range.words) [[unlikely]]
      return false;
    found = range.direct + offset;
    return true;
  }
  void add(const KnownRange& range) noexcept { const_cast<KnownRange&>(at(range.key)) = range; }

 private:
  static constexpr std::size_t kPlaces = 8;
  /// The place of a key: the last bits of its index. Computed as an offset in bytes: that is one
  /// shift and one mask; ranges_[index % kPlaces] would be one instruction more.
  [[nodiscard]] const KnownRange& at(std::uint32_t key) const noexcept {
    constexpr unsigned kShift = kRegionTagBits - std::bit_width(sizeof(KnownRange) - 1);
    const std::size_t offset = key >> kShift & (kPlaces - 1) * sizeof(KnownRange);
    return *reinterpret_cast<const KnownRange*>(reinterpret_cast<const std::byte*>(ranges_) +
                                                offset);
  }
  static_assert(std::has_single_bit(sizeof(KnownRange)));
  KnownRange ranges_[kPlaces];
};

/// The two sides of a request, with the rights that it needs.
struct KnownRoute {
  KnownRanges here;
  KnownRanges there;
};

/// What a queue pair knows.
struct Known {
  std::uint64_t own_changes = 0;  ///< The counters when it was learned; 0: nothing is known.
  std::uint64_t peer_changes = 0;
  KnownRoute writes;
  KnownRoute reads;

  void forget() noexcept { own_changes = 0; }
};

}  // namespace verbatim::engine
