// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/region_spans.hpp"

#include <iterator>
#include <new>

namespace verbatim::engine {

bool RegionSpans::add(std::uint64_t address, std::uint64_t length) noexcept {
  const std::lock_guard lock{mutex_};
  if (overlap_) return true;
  const auto next = ends_.lower_bound(address);
  overlap_ = (next != ends_.end() && next->first < address + length) ||
             (next != ends_.begin() && std::prev(next)->second > address);
  try {
    if (!overlap_) ends_.emplace_hint(next, address, address + length);
  } catch (const std::bad_alloc&) {
    overlap_ = true;
  }
  if (overlap_) ends_.clear();
  return overlap_;
}

void RegionSpans::remove(std::uint64_t address) noexcept {
  const std::lock_guard lock{mutex_};
  ends_.erase(address);
}

}  // namespace verbatim::engine
