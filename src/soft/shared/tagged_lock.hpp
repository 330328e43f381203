// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A lock in shared memory whose holder may be killed at any instruction.
///
/// The word names its holder, so a waiter can find out that the holder is dead and take over; the
/// new holder must repair what the old one left half done. If a holder lives but does not leave,
/// the attempt fails: soon if the process is stopped, and else after a bound. Nothing waits for
/// ever.
///
/// Owns nothing: the word is in a segment. Any thread of any process. TaggedGuard has the rank that
/// it is given; a waiter that checks whether the holder lives takes `peers`. Taking a free one is
/// hot.
#include <chrono>
#include <cstdint>

#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/spin.hpp"

namespace verbatim::engine {

enum class Acquired : std::uint8_t { yes, taken_over, no };

inline constexpr auto kHolderPatience = std::chrono::milliseconds{200};

/// The slow half: spins, then checks whether the holder lives, until the patience ends.
[[gnu::cold]] Acquired acquire_contended(Word& lock, std::uint32_t tag, Peers& peers,
                                         std::chrono::nanoseconds patience) noexcept;

[[nodiscard]] inline Acquired acquire(
    Word& lock, std::uint32_t tag, Peers& peers,
    std::chrono::nanoseconds patience = kHolderPatience) noexcept {
  std::uint32_t nobody = 0;
  if (lock.compare_exchange_strong(nobody, tag, std::memory_order_acquire)) [[likely]]
    return Acquired::yes;
  return acquire_contended(lock, tag, peers, patience);
}

inline void release(Word& lock) noexcept { lock.store(0, std::memory_order_release); }

/// Holds such a lock while it lives, if it got it.
class TaggedGuard {
 public:
  [[gnu::always_inline]] TaggedGuard(Word& lock, std::uint32_t tag, Peers& peers, LockRank rank,
                                     std::chrono::nanoseconds patience = kHolderPatience) noexcept
      : lock_(lock), rank_(rank) {
    note_taken(rank, false);
    acquired_ = acquire(lock, tag, peers, patience);
    if (acquired_ == Acquired::no) note_released(rank);
  }
  /// Takes it only if it is free.
  [[gnu::always_inline]] TaggedGuard(Word& lock, std::uint32_t tag, LockRank rank) noexcept
      : lock_(lock), rank_(rank) {
    std::uint32_t nobody = 0;
    const bool got = lock.compare_exchange_strong(nobody, tag, std::memory_order_acquire);
    acquired_ = got ? Acquired::yes : Acquired::no;
    if (got) note_taken(rank, true);
  }
  [[gnu::always_inline]] ~TaggedGuard() {
    if (acquired_ == Acquired::no) return;
    release(lock_);
    note_released(rank_);
  }
  TaggedGuard(const TaggedGuard&) = delete;
  TaggedGuard& operator=(const TaggedGuard&) = delete;

  [[nodiscard]] explicit operator bool() const noexcept { return acquired_ != Acquired::no; }
  /// From a dead holder.
  [[nodiscard]] bool taken_over() const noexcept { return acquired_ == Acquired::taken_over; }

 private:
  Word& lock_;
  LockRank rank_;
  Acquired acquired_;
};

}  // namespace verbatim::engine
