// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/access_guard.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include "soft/shared/engine.hpp"
#include "soft/shared/long_wait.hpp"
#include "soft/shared/membarrier.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// A requester that stays longer than this may be busy with other memory; it is worth checking.
constexpr auto kShort = std::chrono::milliseconds{1};
/// A requester that stays longer than this may be stopped; most copies are shorter.
constexpr auto kLong = std::chrono::milliseconds{20};

/// Orders the stores of the process that claimed `entered` before the loads that follow here:
/// either its store to `touching` is visible, or it will see what we forbade. Returns false if the
/// kernel cannot do that. Interrupting only the processors that run the process takes microseconds;
/// waiting for all processors takes milliseconds.
bool order_occupant(Engine& engine, const SharedReceives& receives) noexcept {
  const auto entered = static_cast<std::uint32_t>(receives.entered.load());
  const std::uint32_t tag = entered != 0 ? entered : receives.lock.load();
  const auto peer = engine.peers().find(slot_of_tag(tag));
  if (peer && peer->tag() == tag && peer->segment().is_ordered == 1 &&
      membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
    return true;
  return membarrier(MEMBARRIER_CMD_GLOBAL);
}

enum class Waited : std::uint8_t { changed, dead, busy };

/// Waits for a change of `word` away from `value`, which the process `tag` wrote.
template <class AtomicWord>
Waited wait_for_change(Engine& engine, const AtomicWord& word,
                       typename AtomicWord::value_type value, std::uint32_t tag,
                       std::chrono::nanoseconds patience) noexcept {
  for (LongWait wait;;) {
    const bool asks = wait.pause();
    if (word.load() != value) return Waited::changed;
    if (!asks) continue;
    if (engine.peers().is_dead(tag)) return Waited::dead;
    if (wait.waited() > patience || (wait.waited() > kLong && engine.peers().is_stopped(tag)))
      return Waited::busy;
  }
}

/// Waits until the process that has entered has left, or removes it if it is dead.
int wait_for_entered(Engine& engine, LongWord& entered,
                     std::chrono::nanoseconds patience) noexcept {
  std::uint64_t occupant = entered.load();  // It counts, so a newcomer is distinct.
  if (occupant == 0) return 0;
  const Waited waited =
      wait_for_change(engine, entered, occupant, static_cast<std::uint32_t>(occupant), patience);
  if (waited == Waited::dead) entered.compare_exchange_strong(occupant, 0);
  return waited == Waited::busy ? EBUSY : 0;
}

/// Datagrams come from many senders. Each holds the lock of the receive ring while it is inside. A
/// dead one keeps it: the next sender takes it over, and gives back what the dead one had taken.
int wait_for_occupants(Engine& engine, SharedReceives& receives,
                       std::chrono::nanoseconds patience) noexcept {
  if (const int busy = wait_for_entered(engine, receives.entered, patience)) return busy;
  const std::uint32_t sender = receives.lock.load();
  if (sender == 0) return 0;
  const Waited waited = wait_for_change(engine, receives.lock, sender, sender, patience);
  return waited == Waited::busy ? EBUSY : 0;
}

/// The requester that may announce a visit in `visiting`.
struct Visitor {
  PeerRef peer;
  const LongWord* visiting = nullptr;

  [[nodiscard]] std::uint64_t visit() const noexcept {
    return visiting != nullptr ? visiting->load() : 0;
  }
};

/// Finds the queue pair that this one is connected to, if the connection is mutual.
Visitor visitor_of(Engine& engine, const SharedQueuePair& queue_pair) noexcept {
  if (queue_pair.watches.load() == 0) return {};
  const auto index = static_cast<std::uint32_t>(&queue_pair - engine.segment().queue_pairs);
  const std::uint32_t number = queue_pair.peer.load();
  PeerRef peer = engine.peers().at(slot_of(number));
  SharedQueuePair* const from = peer ? peer->queue_pair(index_of(number)) : nullptr;
  if (from == nullptr || from->peer.load() != number_of(engine.own().slot(), index)) return {};
  return {std::move(peer), &from->visiting};
}

int wait_for_visit(Engine& engine, const Visitor& visitor, std::uint64_t visit,
                   std::chrono::nanoseconds patience) noexcept {
  const Waited waited =
      wait_for_change(engine, *visitor.visiting, visit, visitor.peer->tag(), patience);
  return waited == Waited::busy ? EBUSY : 0;
}

/// Waits for a visit, whatever memory it touches.
int wait_for_visitor(Engine& engine, const SharedQueuePair& queue_pair,
                     std::chrono::nanoseconds patience) noexcept {
  const Visitor visitor = visitor_of(engine, queue_pair);
  const std::uint64_t visit = visitor.visit();
  return visit == 0 ? 0 : wait_for_visit(engine, visitor, visit, patience);
}

constexpr std::uint32_t touched_by(std::uint64_t visit) noexcept {
  return static_cast<std::uint32_t>(visit);
}

}  // namespace

bool order_requesters(Engine& engine) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return !engine.own().is_ordered() || membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) ||
         membarrier(MEMBARRIER_CMD_GLOBAL);
}

bool Visit::wait() noexcept {
  LongWord& entered = route_.target->receives.entered;
  for (LongWait wait; wait.waited() < kLong;) {
    const bool asks = wait.pause();
    if (claim()) return true;
    std::uint64_t occupant = entered.load();
    if (asks && occupant != 0 &&
        route_.engine->peers().is_dead(static_cast<std::uint32_t>(occupant)))
      entered.compare_exchange_strong(occupant, 0);  // A dead process does not leave.
  }
  return false;
}

void Visit::tell_established() noexcept {
  if (to_->established.load(std::memory_order_relaxed) != 0) return;
  to_->established.store(1);
  route_.engine->call_attention(*route_.peer);
}

int wait_until_left(Engine& engine, SharedQueuePair& queue_pair,
                    std::chrono::milliseconds patience) noexcept {
  if (!order_requesters(engine)) return EBUSY;
  if (const int busy = wait_for_occupants(engine, queue_pair.receives, patience)) return busy;
  return wait_for_visitor(engine, queue_pair, patience);
}

std::optional<std::uint32_t> touched_inside(Engine& engine,
                                            const SharedQueuePair& queue_pair) noexcept {
  const SharedReceives& receives = queue_pair.receives;
  const std::uint64_t visit = visitor_of(engine, queue_pair).visit();
  if (visit == 0)
    return order_occupant(engine, receives) ? std::optional{receives.touching.load()}
                                            : std::nullopt;
  if (receives.entered.load() != 0 || receives.lock.load() != 0) return std::nullopt;  // Two.
  return touched_by(visit) == kNoMemory ? 0 : touched_by(visit);
}

bool is_left(Engine& engine, SharedQueuePair& queue_pair) noexcept {
  constexpr std::chrono::nanoseconds kNone{0};
  return wait_for_occupants(engine, queue_pair.receives, kNone) == 0 &&
         wait_for_visitor(engine, queue_pair, kNone) == 0;
}

int wait_for_requester(Engine& engine, SharedQueuePair& queue_pair, std::uint32_t key) noexcept {
  SharedReceives& receives = queue_pair.receives;
  if (wait_for_occupants(engine, receives, kShort) != 0 &&
      // The requester stays long. If it copies other memory, there is no need to wait for it.
      !(order_occupant(engine, receives) && receives.touching.load() != key))
    if (const int busy = wait_for_occupants(engine, receives, kLeavePatience)) return busy;
  const Visitor visitor = visitor_of(engine, queue_pair);
  const std::uint64_t visit = visitor.visit();
  return touched_by(visit) != key ? 0 : wait_for_visit(engine, visitor, visit, kLeavePatience);
}

}  // namespace verbatim::engine
