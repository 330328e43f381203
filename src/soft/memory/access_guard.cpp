// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/access_guard.hpp"

#include <cerrno>
#include <chrono>

#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// A copy of a gigabyte takes a fraction of this.
constexpr auto kPatience = std::chrono::seconds{2};

/// Until the present occupant has left: `entered` counts, so a newcomer is told from it.
int wait_for_occupant(Engine& engine, LongWord& entered) noexcept {
  const std::uint64_t occupant = entered.load();
  if (occupant == 0) return 0;
  const auto start = std::chrono::steady_clock::now();
  Backoff backoff;
  while (entered.load() == occupant) {
    backoff.wait();
    if (backoff.rounds() % 256 != 0) continue;
    if (!engine.peers().is_alive(static_cast<std::uint32_t>(occupant))) {
      std::uint64_t dead = occupant;
      entered.compare_exchange_strong(dead, 0);
      return 0;
    }
    if (std::chrono::steady_clock::now() - start > kPatience) return EBUSY;
  }
  return 0;
}

/// Datagrams come from many: they hold the lock of the receive ring while inside.
int wait_for_lock(Engine& engine, Word& lock) noexcept {
  if (lock.load() == 0) return 0;
  if (acquire(lock, engine.tag(), engine.peers(), kPatience) == Acquired::no) return EBUSY;
  release(lock);
  return 0;
}

}  // namespace

int wait_until_left(Engine& engine, SharedQueuePair& queue_pair) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // Pairs with a requester's entry.
  if (const int busy = wait_for_occupant(engine, queue_pair.entered)) return busy;
  return wait_for_lock(engine, queue_pair.receives.lock);
}

int wait_for_requesters(Engine& engine, std::uint32_t domain) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::uint32_t index = 0; index < kQueuePairs; ++index) {
    const QueuePair* const queue_pair = engine.queue_pairs.at(index);
    if (queue_pair == nullptr || queue_pair->domain != domain) continue;
    if (const int busy = wait_until_left(engine, *queue_pair->shared)) return busy;
  }
  return 0;
}

bool Visit::wait() noexcept {
  LongWord& entered = from_.target->entered;
  for (Backoff backoff; backoff.rounds() < 100'000; backoff.wait()) {
    if (step_in()) return true;
    if (backoff.rounds() % 1024 != 1023) continue;
    std::uint64_t occupant = entered.load();
    if (occupant != 0 && !from_.engine->peers().is_alive(static_cast<std::uint32_t>(occupant)))
      entered.compare_exchange_strong(occupant, 0);  // The dead do not leave.
  }
  return false;
}

}  // namespace verbatim::engine
