// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A queue pair as its owner keeps it: its requests, where they go, what waits.
///
/// Owns its ring of receives, the waiting requests, and a reference to the peer that it is aimed
/// at. `lock` (rank `queue_pair`) guards the send side and is held while requests run;
/// `receive_lock` (`receives`) guards the receive side; `build_lock` guards what
/// ibv_wr_* builds. Any thread of the program comes here, and the helper for waiting requests. Hot.
#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "soft/completer/completion_queue.hpp"
#include "soft/faults/hook.hpp"
#include "soft/memory/access_guard.hpp"
#include "soft/requester/translation_cache.hpp"
#include "soft/responder/deliver.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/biased_lock.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/objects.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/spin.hpp"

namespace verbatim::engine {

struct Builder;

/// A request that could not finish when it was posted.
struct Waiting {
  ibv_send_wr request;
  ibv_sge elements[kMaxElements];
  std::uint32_t number;
  std::uint32_t rnr_attempts;
  std::uint32_t losses;      // How many attempts had no answer.
  std::uint64_t due_ns;      // When to try again.
  std::uint64_t ack_due_ns;  // When this attempt counts as lost; 0: none has begun.
  Script script;             // What happens to it, on an unusual day.
};

struct QueuePair {
  union {
    ibv_qp raw;
    ibv_qp_ex extended;  // Only if created with ibv_create_qp_ex; its beginning is the same ibv_qp.
  };
  Engine* engine;
  Context* context;
  std::uint32_t index;
  SharedQueuePair* shared;
  Ranked<LockRank::queue_pair, BiasedLock> lock;  // Guards the send side.
  std::uint32_t domain;
  ibv_qp_attr attributes{};
  ibv_qp_cap limits{};
  unsigned signal_all = 0;  // IBV_SEND_SIGNALED for a queue pair that signals all its requests.
  CompletionQueue* send_completions;
  CompletionQueue* receive_completions;
  SharedReceiveQueue* shared_receives = nullptr;
  ReceiveLock receive_lock;
  ReceiveRing receives;
  ReceiveSide side{};  // What completions of receives find.

  Peer* self = nullptr;
  std::uint32_t max_message = 0;
  std::uint32_t lid = 0;  // Of its port; 0 on Ethernet.

  PeerRef peer;  // Held while the route leads there.
  Route route;
  Delivery delivery;
  Known known;  // For a queue pair without waiting requests.

  // Running numbers of the send queue. A slot is free again when its completion was *polled*.
  std::uint32_t posted = 0;
  std::atomic<std::uint32_t> retired{0};
  std::uint32_t full_at = 0;  // At least up to this number may be posted: see is_full().

  // Waiting requests, oldest first: for a receive at the peer, or for the peer itself.
  std::unique_ptr<Waiting[]> waiting;
  std::unique_ptr<std::byte[]> inline_data;  // limits.max_inline_data per slot.
  std::uint32_t waiting_capacity = 0;
  std::uint32_t waiting_head = 0;
  std::uint32_t waiting_tail = 0;
  std::atomic<bool> listed{false};    // In the engine's list of queue pairs with waiting requests,
  QueuePair* next_waiting = nullptr;  // which continues here.
  CompletionQueue* ghost_queue = nullptr;  // Set when it has ended: see control/ghosts.hpp.
  std::atomic<bool> broken{false};         // A request failed: its owner's thread flushes the rest.
  std::atomic<bool> is_flushed{false};     // In the error state, and nobody fills receives.
  bool tell_drained = false;  // SQD: an event is due when everything up to here is done,
  std::uint32_t drain_until = 0;
  std::atomic<bool> drained{false};  // and this is the cry for it.

  // Requests being built through ibv_wr_*; only with ibv_create_qp_ex.
  SpinLock build_lock;  // Outside the order of locks: the program holds it between two calls.
  std::shared_ptr<Builder> builder;

  QueuePair() noexcept : extended{} {}
  [[nodiscard]] static QueuePair& of(ibv_qp* handle) noexcept {
    return *reinterpret_cast<QueuePair*>(handle);
  }
  [[nodiscard]] static QueuePair& of(const ReceiveSide& side) noexcept {
    return *static_cast<QueuePair*>(side.queue_pair);
  }
  // The state is in the public structure, where other threads read it: always use these. Changed
  // under the lock.
  [[nodiscard]] ibv_qp_state state() noexcept {
    return std::atomic_ref{raw.state}.load(std::memory_order_relaxed);
  }
  void set_state(ibv_qp_state state) noexcept {
    known.forget();
    std::atomic_ref{raw.state}.store(state, std::memory_order_relaxed);
  }
  /// It runs no more requests; the thread that answers calls for attention flushes them.
  void break_later() noexcept {
    set_state(IBV_QPS_ERR);
    broken.store(true);
  }
  /// Whether requests are not executed any more, but flushed.
  [[nodiscard]] bool flushes_sends() noexcept {
    return state() == IBV_QPS_ERR || state() == IBV_QPS_SQE;
  }
  [[nodiscard]] bool has_waiting() const noexcept { return waiting_head != waiting_tail; }
  /// Whether the oldest waiting request may run. A queue that is being drained finishes what it
  /// had.
  [[nodiscard]] bool has_runnable() noexcept {
    return has_waiting() &&
           (state() == IBV_QPS_RTS || (state() == IBV_QPS_SQD && waiting_head != drain_until));
  }
  [[nodiscard]] Sender sender() const noexcept {
    return {*engine, raw.qp_num, lid, raw.qp_type == IBV_QPT_RC};
  }
  /// The lock of the ring that its receives come from.
  [[nodiscard]] ReceiveLock& ring_lock() noexcept {
    return shared_receives != nullptr ? shared_receives->lock : receive_lock;
  }
};

}  // namespace verbatim::engine
