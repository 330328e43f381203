// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Being inside the responder's queue pair: while it lasts, its memory is not taken away.
#include <cstdint>

#include "soft/engine.hpp"
#include "soft/layout.hpp"
#include "soft/objects.hpp"
#include "soft/peers.hpp"

namespace verbatim::engine {

/// One visit serves all requests of a list: entering is an atomic, and whether the peer lives is
/// asked of the clock. The queue pair's lock is held.
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
    SharedQueuePair& to = *from_.target;
    std::uint64_t nobody = 0;
    const std::uint64_t us = ++from_.visits << 32 | from_.engine->tag();
    // Full fence: the responder's state is read after the entry is visible (see revoke.cpp).
    if (!to.entered.compare_exchange_strong(nobody, us) && !wait(us)) [[unlikely]]
      return false;
    to_ = &to;
    if (is_welcome()) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept {
    if (to_ != nullptr) to_->entered.store(0, std::memory_order_release);
    to_ = nullptr;
  }

  /// Whether the peer seemed alive during this visit. A copy into the memory of a dead process
  /// succeeds; only the kernel knows better.
  [[nodiscard]] bool finds_life() noexcept {
    if (!asked_) alive_ = from_.peer->seems_alive();
    asked_ = true;
    return alive_;
  }

 private:
  [[nodiscard]] bool is_welcome() const noexcept {
    const std::uint32_t state = to_->state.load();
    return (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
           to_->number == from_.target_number && to_->peer == from_.raw.qp_num &&
           to_->type == from_.raw.qp_type;
  }
  /// Somebody is inside: a former peer that was killed there, or is about to leave.
  [[gnu::cold]] bool wait(std::uint64_t us) noexcept;

  QueuePair& from_;
  SharedQueuePair* to_ = nullptr;
  bool asked_ = false;
  bool alive_ = true;
};

}  // namespace verbatim::engine
