// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A lock in shared memory whose holder may be killed at any instruction.
///
/// The word names its holder, so a waiter can find out that the holder is dead and take over; what
/// the holder left half done is for the new one to repair. A holder that lives but does not leave
/// (a stopped process) makes the attempt fail after a bound: nothing waits for ever.
#include <chrono>
#include <cstdint>

#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/spin.hpp"

namespace verbatim::engine {

enum class Acquired : std::uint8_t { yes, taken_over, no };

inline constexpr auto kHolderPatience = std::chrono::milliseconds{200};

/// The slow half: spins, then asks whether the holder lives, until the patience ends.
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

}  // namespace verbatim::engine
