// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/tagged_lock.hpp"

#include "soft/shared/long_wait.hpp"

namespace verbatim::engine {
namespace {

/// Critical sections are shorter, and a stopped holder may stay for hours.
constexpr auto kStopPatience = std::chrono::milliseconds{1};

}  // namespace

Acquired acquire_contended(Word& lock, std::uint32_t tag, Peers& peers,
                           std::chrono::nanoseconds patience) noexcept {
  for (LongWait wait;;) {
    const bool asks = wait.pause();
    std::uint32_t holder = 0;
    if (lock.compare_exchange_weak(holder, tag, std::memory_order_acquire)) return Acquired::yes;
    if (holder == 0 || !asks) continue;
    if (peers.is_dead(holder) &&
        lock.compare_exchange_strong(holder, tag, std::memory_order_acquire))
      return Acquired::taken_over;
    if (wait.waited() > patience || (wait.waited() > kStopPatience && peers.is_stopped(holder)))
      return Acquired::no;
  }
}

}  // namespace verbatim::engine
