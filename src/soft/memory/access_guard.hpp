// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Being inside the responder's queue pair: as long as it lasts, its memory is not taken
/// away.
///
/// A requester enters the responder's queue pair, announces by key which memory it is about to
/// touch, and only then checks whether it may; afterwards it leaves. A revoker first forbids (by
/// the queue pair's state, or the region's key), then waits here for requesters that did not see
/// that. A dead process is removed. If a live one does not leave within a bound, or is stopped, the
/// call fails with EBUSY if that process touches the memory in question. If it touches other
/// memory, it is ignored: a peer affects only itself.
///
/// There are two ways in. Any requester can claim the responder's `entered`, by an atomic exchange,
/// and say in `touching` what it touches. The fast path of a connected queue pair announces both in
/// one word of its own segment, `visiting`: only its owner writes that word, so a plain store will
/// do. The exchange cost 6.6 ns of a write of 8 bytes that took 70. The responder must know where
/// to look: it says so (`watches`) when it has attached its peer.
///
/// A plain store may become visible late. So a revoker orders all requesters from its side
/// (membarrier) after it forbade, and before it believes what it reads. Where a process cannot have
/// that, its requesters and those of its peers fence themselves (Route::is_plain).
///
/// Owns the entry of one requester, as long as its Visit lives. Threads: the one that runs a
/// request, under `queue_pair`; revokers, which may hold `domain` and wait two seconds at most.
/// Being inside is not a lock: nobody waits for it without a bound. Entering and touching are hot,
/// waiting is not.
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

class Engine;

/// Where the requests of a connected queue pair go. Set on the way to RTR.
struct Route {
  Engine* engine = nullptr;
  Peer* peer = nullptr;
  SharedQueuePair* target = nullptr;
  const LongWord* changes = nullptr;  ///< The peer's counter.
  LongWord* visiting = nullptr;       ///< Our own queue pair's.
  std::uint64_t last_entry = 0;       ///< {running count, our tag}
  std::uint32_t number = 0;           ///< The target's,
  std::uint32_t own_number = 0;       ///< and ours.
  std::uint32_t type = 0;             ///< ibv_qp_type
  std::uint32_t device = 0;           ///< The device that the address leads to.
  std::uint32_t first_psn = 0;
  bool is_self = false;   ///< To ourselves: checking whether we live would cost seven instructions.
  bool is_plain = false;  ///< Both processes have membarrier.
};

/// One visit serves all requests of a list, because entering is an atomic. The queue pair's lock is
/// held.
class Visit {
 public:
  explicit Visit(Route& route) noexcept : route_(route) {}
  ~Visit() { leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// False: another requester is inside, or the responder does not let us in. The route must have a
  /// target.
  [[nodiscard]] bool enter() noexcept {
    if (to_ != nullptr) [[likely]]
      return true;
    withdraw();
    if ((claim() || wait()) && is_welcome()) [[likely]] {
      if (to_->state.load(std::memory_order_relaxed) == IBV_QPS_RTR) tell_established();
      return true;
    }
    leave();
    return false;
  }
  /// The fast way in, for a responder that watches us: request `number` is about to touch the
  /// memory behind `key`, or kNoMemory. Check what may forbid it after this.
  [[gnu::always_inline]] void announce(std::uint32_t number, std::uint32_t key) noexcept {
    if (to_ != nullptr) return touch(key);
    const std::uint64_t visit = std::uint64_t{number} << 32 | key;
    if (route_.is_plain) [[likely]]
      route_.visiting->store(visit, std::memory_order_relaxed);
    else
      route_.visiting->store(visit);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // What forbids is read after this.
    announced_ = true;
  }
  /// Whether the responder's queue pair takes our requests. Call it after enter().
  [[nodiscard]] bool is_welcome() const noexcept {
    return is_open(*to_) && to_->number == route_.number && to_->peer.load() == route_.own_number &&
           to_->type == route_.type && to_->device == route_.device &&
           (route_.type != IBV_QPT_RC || to_->expected_psn == route_.first_psn);
  }
  /// Call it after enter(), before touching the responder's memory. Check what may forbid it after
  /// this.
  [[gnu::always_inline]] void touch(std::uint32_t key) noexcept {
    to_->receives.touching.store(key, std::memory_order_relaxed);
  }
  /// Like touch(). False: the queue pair was closed meanwhile.
  [[nodiscard]] bool may_touch(std::uint32_t key) noexcept {
    touch(key);
    return is_open(*to_);
  }
  [[gnu::always_inline]] void leave() noexcept {
    withdraw();
    if (to_ != nullptr) {
      to_->receives.entered.store(0, std::memory_order_release);
      to_ = nullptr;
    }
  }

  [[nodiscard]] static bool is_open(const SharedQueuePair& queue_pair) noexcept {
    const std::uint32_t state = queue_pair.state.load();
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
  }

 private:
  [[nodiscard]] std::uint64_t next_entry() noexcept {
    return route_.last_entry += std::uint64_t{1} << 32;
  }
  /// Enters, perhaps without permission: the caller must find out. False: another requester is
  /// inside.
  [[nodiscard]] bool claim() noexcept {
    SharedQueuePair& to = *route_.target;
    std::uint64_t nobody = 0;
    // Full fence: the responder's state is read after the entry is visible.
    if (!to.receives.entered.compare_exchange_strong(nobody, next_entry())) [[unlikely]]
      return false;
    to_ = &to;
    return true;
  }
  [[gnu::always_inline]] void withdraw() noexcept {
    if (announced_) route_.visiting->store(0, std::memory_order_release);
    announced_ = false;
  }
  /// Another requester is inside: an earlier peer that was killed there, or one about to leave.
  [[gnu::cold]] bool wait() noexcept;
  /// A message came before the responder was ready to send: it may want an event for that.
  [[gnu::cold]] void tell_established() noexcept;

  Route& route_;
  SharedQueuePair* to_ = nullptr;  // Where we have entered.
  bool announced_ = false;         // In `visiting`.
};

/// Call it after something was forbidden: a requester that did not see that is seen inside. False:
/// this process may not give the command any more. It interrupts the processors that run peers, for
/// some microseconds.
[[nodiscard]] bool order_requesters(Engine& engine) noexcept;

/// How long to wait for a requester that does not leave. A copy of a gigabyte takes a fraction of
/// it.
inline constexpr std::chrono::milliseconds kLeavePatience{2000};
/// Waits until nobody is inside this queue pair. EBUSY: a requester does not leave.
[[nodiscard]] int wait_until_left(Engine& engine, SharedQueuePair& queue_pair,
                                  std::chrono::milliseconds patience = kLeavePatience) noexcept;
/// The key that the requester inside touches (0: none), after wait_until_left() returned EBUSY: it
/// touches nothing else before it checks whether it may. Empty: unknown.
[[nodiscard]] std::optional<std::uint32_t> touched_inside(
    Engine& engine, const SharedQueuePair& queue_pair) noexcept;
/// Whether nobody is inside, or only dead processes: they are removed.
[[nodiscard]] bool is_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;

/// Waits until the requester inside this queue pair has left, or is known not to touch this key.
/// Call it after order_requesters(). EBUSY: it touches the key, and does not leave.
[[nodiscard]] int wait_for_requester(Engine& engine, SharedQueuePair& queue_pair,
                                     std::uint32_t key) noexcept;

}  // namespace verbatim::engine
