// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Counters of what was taken away from requesters: they show that remembered checks are old.
///
/// Owns the private counter; the one that peers see is in the segment. Control verbs increment,
/// requests compare (requester/translation_cache.hpp). Any thread, no locks. Reading is hot,
/// counting is not.
#include <atomic>
#include <cstdint>

#include "soft/shared/layout.hpp"

namespace verbatim::engine {

/// Counts the changes on our side. Private: what lets us write into our own memory must not be
/// where a peer can write.
inline std::atomic<std::uint64_t> own_changes{1};

/// Counts a change for our own requests and for those of peers, which see `segment`.
inline void count_change(Segment& segment) noexcept {
  own_changes.fetch_add(1);
  segment.changes.fetch_add(1);
}

}  // namespace verbatim::engine
