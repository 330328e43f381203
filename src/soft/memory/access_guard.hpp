// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Being inside the responder's queue pair: while it lasts, its memory is not taken away.
///
/// A requester enters the responder's queue pair before it looks at memory and leaves after.
/// Whoever revokes first forbids new entries (by the queue pair's state, or the region's key), then
/// waits here. A dead process is removed; a live one that does not leave within a bound (it may be
/// stopped) makes the call fail with EBUSY, and the memory must not be reused.
#include <cstdint>

#include "soft/shared/engine.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/objects.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

/// One visit serves all requests of a list: entering is an atomic. The queue pair's lock is held.
class Visit {
 public:
  explicit Visit(QueuePair& from) noexcept : from_(from) {}
  ~Visit() { leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  /// False: somebody else is inside, or the responder does not let us in. From a queue pair that
  /// has a target.
  [[nodiscard]] bool enter() noexcept {
    if (to_ != nullptr) [[likely]]
      return true;
    if ((step_in() || wait()) && is_welcome()) [[likely]]
      return true;
    leave();
    return false;
  }
  /// Inside, but perhaps not welcome: the caller has to find out. False: somebody else is inside.
  [[nodiscard, gnu::always_inline]] bool step_in() noexcept {
    if (to_ != nullptr) return true;
    SharedQueuePair& to = *from_.target;
    std::uint64_t nobody = 0;
    // Full fence: the responder's state is read after the entry is visible (see access_guard.cpp).
    if (!to.entered.compare_exchange_strong(nobody, next_entry())) [[unlikely]]
      return false;
    to_ = &to;
    return true;
  }
  /// Whether the responder's queue pair takes requests of ours. From inside.
  [[nodiscard]] bool is_welcome() const noexcept {
    const std::uint32_t state = to_->state.load();
    return (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
           to_->number == from_.target_number && to_->peer == from_.raw.qp_num &&
           to_->type == from_.raw.qp_type;
  }
  void leave() noexcept {
    if (to_ != nullptr) step_out();
  }
  /// As leave(), from inside.
  void step_out() noexcept {
    to_->entered.store(0, std::memory_order_release);
    to_ = nullptr;
  }

 private:
  [[nodiscard]] std::uint64_t next_entry() noexcept {
    return from_.last_entry += std::uint64_t{1} << 32;
  }
  /// Somebody is inside: a former peer that was killed there, or is about to leave.
  [[gnu::cold]] bool wait() noexcept;

  QueuePair& from_;
  SharedQueuePair* to_ = nullptr;
};

/// Until nobody is inside this queue pair.
[[nodiscard]] int wait_until_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;

/// Until everybody who is inside a queue pair of the domain now has left it.
[[nodiscard]] int wait_for_requesters(Engine& engine, std::uint32_t domain) noexcept;

}  // namespace verbatim::engine
