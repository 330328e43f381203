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
/// Entering is a full fence. Touching is a plain store, because it is hot. So a revoker that finds
/// a requester inside orders it from its side (membarrier) before it believes what it reads.
///
/// Owns the entry of one requester, as long as its Visit lives. Threads: the one that runs a
/// request, under `queue_pair`; revokers, which may hold `domain` and wait two seconds at most.
/// Being inside is not a lock: nobody waits for it without a bound. Entering and touching are hot,
/// waiting is not.
#include <infiniband/verbs.h>

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
  const LongWord* changes = nullptr;  ///< The peer's counter; for ourselves the private one.
  std::uint64_t last_entry = 0;       ///< {running count, our tag}
  std::uint32_t number = 0;           ///< The target's,
  std::uint32_t own_number = 0;       ///< and ours.
  std::uint32_t type = 0;             ///< ibv_qp_type
  std::uint32_t device = 0;           ///< The device that the address leads to.
  std::uint32_t first_psn = 0;
  bool is_self = false;  ///< To ourselves: checking whether we live would cost seven instructions.
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
    if ((step_in() || wait()) && is_welcome()) [[likely]] {
      if (to_->state.load(std::memory_order_relaxed) == IBV_QPS_RTR) tell_established();
      return true;
    }
    leave();
    return false;
  }
  /// Enters, perhaps without permission: the caller must find out. False: another requester is
  /// inside.
  [[nodiscard, gnu::always_inline]] bool step_in() noexcept {
    if (to_ != nullptr) return true;
    SharedQueuePair& to = *route_.target;
    std::uint64_t nobody = 0;
    // Full fence: the responder's state is read after the entry is visible.
    if (!to.receives.entered.compare_exchange_strong(nobody, next_entry())) [[unlikely]]
      return false;
    to_ = &to;
    return true;
  }
  /// Whether the responder's queue pair takes our requests. Call it from inside.
  [[nodiscard]] bool is_welcome() const noexcept {
    return is_open(*to_) && to_->number == route_.number && to_->peer == route_.own_number &&
           to_->type == route_.type && to_->device == route_.device &&
           (route_.type != IBV_QPT_RC || to_->expected_psn == route_.first_psn);
  }
  /// Call it from inside, before touching the responder's memory. Check what may forbid it after
  /// this.
  [[gnu::always_inline]] void touch(std::uint32_t key) noexcept {
    to_->receives.touching.store(key, std::memory_order_relaxed);
  }
  /// Like touch(). False: the queue pair was closed meanwhile.
  [[nodiscard]] bool may_touch(std::uint32_t key) noexcept {
    touch(key);
    return is_open(*to_);
  }
  void leave() noexcept {
    if (to_ != nullptr) step_out();
  }
  /// Like leave(), from inside.
  void step_out() noexcept {
    to_->receives.entered.store(0, std::memory_order_release);
    to_ = nullptr;
  }

  [[nodiscard]] static bool is_open(const SharedQueuePair& queue_pair) noexcept {
    const std::uint32_t state = queue_pair.state.load();
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD;
  }

 private:
  [[nodiscard]] std::uint64_t next_entry() noexcept {
    return route_.last_entry += std::uint64_t{1} << 32;
  }
  /// Another requester is inside: an earlier peer that was killed there, or one about to leave.
  [[gnu::cold]] bool wait() noexcept;
  /// A message came before the responder was ready to send: it may want an event for that.
  [[gnu::cold]] void tell_established() noexcept;

  Route& route_;
  SharedQueuePair* to_ = nullptr;
};

/// Waits until nobody is inside this queue pair. EBUSY: a requester does not leave.
[[nodiscard]] int wait_until_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;
/// The key that the requester inside touches (0: none), after wait_until_left() returned EBUSY: it
/// touches nothing else before it checks whether it may. Empty: unknown.
[[nodiscard]] std::optional<std::uint32_t> touched_inside(
    Engine& engine, const SharedQueuePair& queue_pair) noexcept;
/// Whether nobody is inside, or only dead processes: they are removed.
[[nodiscard]] bool is_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;

/// Waits until the requester inside this queue pair has left, or is known not to touch this key.
/// EBUSY: it touches the key, and does not leave.
[[nodiscard]] int wait_for_requester(Engine& engine, SharedQueuePair& queue_pair,
                                     std::uint32_t key) noexcept;

}  // namespace verbatim::engine
