// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// Critical sections are shorter, and a stopped holder may stay for hours.
constexpr auto kStopPatience = std::chrono::milliseconds{1};

}  // namespace

Acquired acquire_contended(Word& lock, std::uint32_t tag, Peers& peers,
                           std::chrono::nanoseconds patience) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Backoff backoff;
  for (;;) {
    backoff.wait();
    std::uint32_t holder = 0;
    if (lock.compare_exchange_weak(holder, tag, std::memory_order_acquire)) return Acquired::yes;
    // Asking the kernel costs more than a critical section, so wait a while first.
    if (holder == 0 || backoff.rounds() % 256 != 0) continue;
    if (peers.is_dead(holder) &&
        lock.compare_exchange_strong(holder, tag, std::memory_order_acquire))
      return Acquired::taken_over;
    const auto waited = Clock::now() - start;
    if (waited > patience || (waited > kStopPatience && peers.is_stopped(holder)))
      return Acquired::no;
  }
}

}  // namespace verbatim::engine
