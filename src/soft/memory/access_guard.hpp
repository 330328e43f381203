// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Being inside the responder's queue pair: while it lasts, its memory is not taken away.
///
/// A requester enters the responder's queue pair, says which memory it is about to touch (by key),
/// and then looks whether it may; it leaves after. Whoever revokes first forbids (by the queue
/// pair's state, or the region's key), then waits here for those who did not see that. A dead
/// process is removed. A live one that does not leave within a bound, or is stopped, makes the call
/// fail with EBUSY if it touches the memory in question, and is passed over if it touches other
/// memory: a peer costs only itself.
///
/// Entering is a full fence. Touching is a plain store, because it is hot; so a revoker that finds
/// somebody inside orders it from its side (membarrier) before it believes what it reads.
///
/// Owns the entry of one requester, as long as its Visit lives. Threads: the one that runs a
/// request, under `queue_pair`; those that revoke, which may hold `domain` and wait two seconds at
/// most. Being inside is no lock: nobody waits for it without a bound. Entering and touching are
/// hot, waiting is not.
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
  std::uint32_t device = 0;           ///< That the address leads to.
  std::uint32_t first_psn = 0;
  bool is_self = false;  ///< To ourselves: asking whether we live costs seven instructions.
};

/// One visit serves all requests of a list: entering is an atomic. The queue pair's lock is held.
class Visit {
 public:
  explicit Visit(Route& route) noexcept : route_(route) {}
  ~Visit() { leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// False: somebody else is inside, or the responder does not let us in. On a route with a target.
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
  /// Inside, but perhaps not welcome: the caller has to find out. False: somebody else is inside.
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
  /// Whether the responder's queue pair takes requests of ours. From inside.
  [[nodiscard]] bool is_welcome() const noexcept {
    return is_open(*to_) && to_->number == route_.number && to_->peer == route_.own_number &&
           to_->type == route_.type && to_->device == route_.device &&
           (route_.type != IBV_QPT_RC || to_->expected_psn == route_.first_psn);
  }
  /// Before memory of the responder is touched, from inside. What forbids it is to be looked at
  /// after this.
  [[gnu::always_inline]] void touch(std::uint32_t key) noexcept {
    to_->receives.touching.store(key, std::memory_order_relaxed);
  }
  /// As touch(). False: the queue pair was closed meanwhile.
  [[nodiscard]] bool may_touch(std::uint32_t key) noexcept {
    touch(key);
    return is_open(*to_);
  }
  void leave() noexcept {
    if (to_ != nullptr) step_out();
  }
  /// As leave(), from inside.
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
  /// Somebody is inside: a former peer that was killed there, or is about to leave.
  [[gnu::cold]] bool wait() noexcept;
  /// A message came before the responder was ready to send: it may want to hear of that.
  [[gnu::cold]] void tell_established() noexcept;

  Route& route_;
  SharedQueuePair* to_ = nullptr;
};

/// Until nobody is inside this queue pair. EBUSY: somebody does not leave.
[[nodiscard]] int wait_until_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;
/// The key that who is inside touches (0: none), after wait_until_left() said EBUSY: it touches
/// nothing else before it looks whether it may. Empty: there is no knowing.
[[nodiscard]] std::optional<std::uint32_t> touched_inside(
    Engine& engine, const SharedQueuePair& queue_pair) noexcept;
/// Whether nobody is inside, or only the dead: they are removed.
[[nodiscard]] bool is_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;

/// Until who is inside this queue pair has left it, or is known not to touch this key. EBUSY: it
/// touches it, and does not leave.
[[nodiscard]] int wait_for_requester(Engine& engine, SharedQueuePair& queue_pair,
                                     std::uint32_t key) noexcept;

}  // namespace verbatim::engine
