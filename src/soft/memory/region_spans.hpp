// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Whether registered ranges of this process overlap.
///
/// Few programs register the same memory twice, and those that do not pay nothing for those that
/// do: requesters look for other regions with the same memory only after the first overlap
/// (Segment::regions_overlap).
///
/// Owns the ranges until the first overlap. Threads: any, in control verbs. Its lock is a leaf. Not
/// hot.
#include <cstdint>
#include <map>
#include <mutex>

namespace verbatim::engine {

class RegionSpans {
 public:
  /// Adds a range. True, from then on always: it overlaps another one, or there was no memory to
  /// find out.
  [[nodiscard]] bool add(std::uint64_t address, std::uint64_t length) noexcept;
  void remove(std::uint64_t address) noexcept;

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ends_;  // By first address. Disjoint.
  bool overlap_ = false;
};

}  // namespace verbatim::engine
