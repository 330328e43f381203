// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/access_guard.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// A copy of a gigabyte takes a fraction of this.
constexpr auto kPatience = std::chrono::seconds{2};
/// Who stays longer than this may be busy with other memory: that can be found out.
constexpr auto kShort = std::chrono::milliseconds{1};
/// Who stays longer than most copies take may be stopped.
constexpr auto kLong = std::chrono::milliseconds{20};

/// Orders what the threads of the one inside did before against what we read next: its store
/// (`touching`) is visible, or it will see what we forbade. False: not to be had here. Interrupting
/// the processors that run it takes microseconds, waiting for all of the machine milliseconds.
bool order_visitor(Engine& engine, const SharedReceives& receives) noexcept {
  const auto entered = static_cast<std::uint32_t>(receives.entered.load());
  const std::uint32_t tag = entered != 0 ? entered : receives.lock.load();
  const auto peer = engine.peers().find(slot_of_tag(tag));
  if (peer && peer->tag() == tag && peer->segment().is_ordered == 1 &&
      syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
    return true;
  return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
}

/// Whether the process behind a tag lives, but does not run: by a signal, or a debugger.
bool is_stopped(Engine& engine, std::uint32_t tag) noexcept {
  const auto peer = engine.peers().find(slot_of_tag(tag));
  return peer && peer->tag() == tag && peer->is_stopped();
}

/// Waits for a change of `word` away from `occupant`, whose tag is in its low half.
template <class AtomicWord>
int wait_for_change(Engine& engine, AtomicWord& word, typename AtomicWord::value_type occupant,
                    std::chrono::nanoseconds patience) noexcept {
  const auto start = Clock::now();
  const auto tag = static_cast<std::uint32_t>(occupant);
  Backoff backoff;
  while (word.load() == occupant) {
    backoff.wait();
    if (backoff.rounds() % 256 != 0) continue;
    if (!engine.peers().is_alive(tag)) {
      auto dead = occupant;
      word.compare_exchange_strong(dead, 0);
      return 0;
    }
    const auto waited = Clock::now() - start;
    if (waited > patience || (waited > kLong && is_stopped(engine, tag))) return EBUSY;
  }
  return 0;
}

/// Until the present occupant has left: `entered` counts, so a newcomer is told from it.
int wait_for_occupant(Engine& engine, SharedReceives& receives,
                      std::chrono::nanoseconds patience) noexcept {
  const std::uint64_t occupant = receives.entered.load();
  return occupant == 0 ? 0 : wait_for_change(engine, receives.entered, occupant, patience);
}

/// Datagrams come from many: they hold the lock of the receive ring while inside.
int wait_for_lock(Engine& engine, SharedReceives& receives,
                  std::chrono::nanoseconds patience) noexcept {
  const std::uint32_t holder = receives.lock.load();
  return holder == 0 ? 0 : wait_for_change(engine, receives.lock, holder, patience);
}

int wait_for_both(Engine& engine, SharedReceives& receives,
                  std::chrono::nanoseconds patience) noexcept {
  if (const int busy = wait_for_occupant(engine, receives, patience)) return busy;
  return wait_for_lock(engine, receives, patience);
}

}  // namespace

bool Visit::wait() noexcept {
  LongWord& entered = route_.target->receives.entered;
  for (Backoff backoff; backoff.rounds() < 100'000; backoff.wait()) {
    if (step_in()) return true;
    if (backoff.rounds() % 1024 != 1023) continue;
    std::uint64_t occupant = entered.load();
    if (occupant != 0 && !route_.engine->peers().is_alive(static_cast<std::uint32_t>(occupant)))
      entered.compare_exchange_strong(occupant, 0);  // The dead do not leave.
  }
  return false;
}

void Visit::tell_established() noexcept {
  if (to_->established.load(std::memory_order_relaxed) != 0) return;
  to_->established.store(1);
  route_.engine->call_attention(*route_.peer);
}

int wait_until_left(Engine& engine, SharedQueuePair& queue_pair) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // Pairs with a requester's entry.
  return wait_for_both(engine, queue_pair.receives, kPatience);
}

std::optional<std::uint32_t> touched_inside(Engine& engine,
                                            const SharedQueuePair& queue_pair) noexcept {
  if (!order_visitor(engine, queue_pair.receives)) return std::nullopt;
  return queue_pair.receives.touching.load();
}

bool is_left(Engine& engine, SharedQueuePair& queue_pair) noexcept {
  return wait_for_both(engine, queue_pair.receives, std::chrono::nanoseconds{0}) == 0;
}

int wait_for_requester(Engine& engine, SharedQueuePair& queue_pair, std::uint32_t key) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (wait_for_both(engine, queue_pair.receives, kShort) == 0) return 0;
  // It stays long. If it copies other memory, this is none of its business any more.
  if (order_visitor(engine, queue_pair.receives) && queue_pair.receives.touching.load() != key)
    return 0;
  return wait_for_both(engine, queue_pair.receives, kPatience);
}

}  // namespace verbatim::engine
