// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The verbs objects of the software device, as their owner keeps them: private memory.
///
/// Each begins with the public C structure, so that a pointer to one is a pointer to the other.
/// What peers need of an object is in the shared segment (layout.hpp); what the owner trusts is
/// here, because peers can write there.
#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "soft/faults/hook.hpp"
#include "soft/requester/translation_cache.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/spin.hpp"

namespace verbatim::engine {

class Engine;
struct Builder;
struct CompletionQueue;
struct QueuePair;

/// Vendor libraries look behind the public structure for their own; there must be zeros.
struct Device {
  ibv_device raw;
  std::byte zeros[64];
  std::uint32_t index;
  ibv_gid gid;
};

struct Context {
  verbs_context extended;  // Its last member is the ibv_context that programs hold.
  std::shared_ptr<Engine> engine;
  Device* device = nullptr;
  std::mutex event_mutex;
  std::deque<ibv_async_event> events;              // The eventfd behind async_fd counts them.
  std::map<const void*, unsigned> unacknowledged;  // By object; programs give events back.
  std::condition_variable acknowledged;
  std::atomic<std::uint32_t> objects{0};
  std::atomic<bool> removed{false};  // The device is gone.

  [[nodiscard]] static Context& of(ibv_context* raw) noexcept {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(raw) -
                                       offsetof(verbs_context, context));
  }
};

struct Domain {
  ibv_pd raw;
  std::uint32_t id;
  std::atomic<std::uint32_t> users{0};
};

struct Region {
  ibv_mr raw;
  SharedRegion* trusted;  // For our own requests,
  SharedRegion* shared;   // and for those of peers, where they can write.
};

struct AddressHandle {
  ibv_ah raw;
  ibv_ah_attr attributes;
};

struct CompletionChannel {
  ibv_comp_channel raw;
  std::uint32_t number;  // Of its FIFO; never reused.
  std::atomic<std::uint32_t> users{0};
};

/// A completion of this process's own making: of a send, or of a flushed receive. A free place in
/// the ring has 0 wherever the success of a send has: those are many, and do not write it again.
struct OwnCompletion {
  ibv_wc wc{};  // As the program gets it: polling copies it.
  QueuePair* queue_pair = nullptr;
  std::uint32_t number = 0;  // Of the request in its queue: polling retires up to it.
  bool is_receive = false;
  bool is_rare = false;  // Not the success of a send: its place is to be cleaned.
};

struct CompletionQueue {
  ibv_cq_ex raw;  // Its beginning is an ibv_cq.
  Engine* engine;
  std::uint32_t index;
  SharedCompletionQueue* shared;
  CompletionEntry* entries;  // The shared ring, in our own segment.
  SpinLock lock;             // Guards what follows, and the consumer's side of the shared ring.
  std::uint32_t capacity;    // Of both rings, a power of two.
  std::uint32_t depth;       // What may be in them together.
  bool has_channel = false;
  std::atomic<std::uint32_t> head{0};
  std::atomic<std::uint32_t> tail{0};
  std::atomic<std::uint32_t> shared_head{0};
  std::unique_ptr<OwnCompletion[]> ring;
  std::uint64_t ring_offset;
  std::atomic<std::uint32_t> users{0};
  std::atomic<std::uint32_t> delivered{0};     // Completion events handed to the program,
  std::atomic<std::uint32_t> acknowledged{0};  // and given back.
  std::atomic<bool> overrun{false};
  ibv_wc current;            // Of an extended poll,
  std::uint64_t current_ns;  // and when that was (steady clock).

  [[nodiscard]] ibv_cq* handle() noexcept { return reinterpret_cast<ibv_cq*>(&raw); }
  [[nodiscard]] static CompletionQueue& of(ibv_cq* queue) noexcept {
    return *reinterpret_cast<CompletionQueue*>(queue);
  }
};

/// A receive as the owner keeps it: the shared copy is for peers.
struct OwnReceive {
  std::uint64_t id;
  std::uint32_t number;  // Running; the completion names it.
  std::uint32_t count;
  std::uint32_t length;
  std::atomic<bool> in_use;  // Until its completion is out of the shared ring, payload and all.
  ibv_sge elements[kMaxElements];
};

/// The owner's half of a ring of receives.
struct ReceiveRing {
  SharedReceives* shared = nullptr;
  ReceiveSlot* slots = nullptr;  // In our own segment.
  std::byte* eager = nullptr;    // Likewise: what peers write for small messages.
  std::uint32_t eager_bytes = 0;
  std::uint32_t capacity = 0;  // A power of two.
  std::uint32_t depth = 0;
  std::uint32_t max_elements = 0;
  std::uint32_t posted = 0;                // Running number.
  std::uint32_t skipped = 0;               // How many numbers were passed over,
  std::uint32_t last_skipped = 0;          // and the one after the last of them.
  std::atomic<std::uint32_t> returned{0};  // How many of them the program has had back.
  std::unique_ptr<OwnReceive[]> own;
  std::uint64_t offset = 0;  // What was allocated for it.
  std::uint64_t bytes = 0;

  [[nodiscard]] std::byte* eager_of(std::uint32_t number) const noexcept {
    return eager + std::size_t{number & (capacity - 1)} * eager_bytes;
  }
};

struct SharedReceiveQueue {
  ibv_srq raw;
  Engine* engine;
  std::uint32_t index;
  SpinLock lock;
  ReceiveRing receives;
  std::atomic<std::uint32_t> users{0};
};

/// A request that could not finish when it was posted.
struct Waiting {
  ibv_send_wr request;
  ibv_sge elements[kMaxElements];
  std::uint32_t number;
  std::uint32_t rnr_attempts;
  std::uint32_t losses;      // On an unusual day: how often the wire lost it.
  std::uint64_t due_ns;      // When to try again.
  std::uint64_t give_up_ns;  // When the peer counts as unreachable; 0: never.
  Script script;             // What is to happen to it, on an unusual day.
};

struct QueuePair {
  union {
    ibv_qp raw;
    ibv_qp_ex extended;  // Only if made with ibv_create_qp_ex; its beginning is the same ibv_qp.
  };
  Engine* engine;
  Context* context;
  std::uint32_t index;
  SharedQueuePair* shared;
  SpinLock lock;  // Guards the send side.
  std::uint32_t domain;
  ibv_qp_attr attributes{};
  ibv_qp_cap limits{};
  unsigned signal_all = 0;  // IBV_SEND_SIGNALED for a queue pair whose requests all are.
  CompletionQueue* send_queue;
  CompletionQueue* receive_queue;
  SharedReceiveQueue* shared_receives = nullptr;
  SpinLock receive_lock;
  ReceiveRing receives;

  Peer* self = nullptr;
  std::uint32_t max_message = 0;
  std::uint64_t last_entry = 0;  // Into the target: {running count, our tag}; see Visit.

  // Where requests go. Set on the way to RTR.
  Peer* peer = nullptr;
  SharedQueuePair* target = nullptr;
  std::uint32_t target_number = 0;
  const LongWord* peer_changes = nullptr;  // Its counter; for ourselves the private one.
  Known known;                             // Of a queue pair that has nothing waiting.

  // Running numbers of the send queue. Slots are free again when a completion was *polled*.
  std::uint32_t posted = 0;
  std::atomic<std::uint32_t> retired{0};
  std::uint32_t full_at = 0;  // At least so many may be posted: see is_full().

  // Requests that wait, oldest first: for a receive at the peer, for the peer itself.
  std::unique_ptr<Waiting[]> waiting;
  std::unique_ptr<std::byte[]> inline_data;  // limits.max_inline_data per slot.
  std::uint32_t waiting_capacity = 0;
  std::uint32_t waiting_head = 0;
  std::uint32_t waiting_tail = 0;
  bool listed = false;  // In the engine's list of queue pairs with waiting requests.

  // Requests being built through ibv_wr_*; only with ibv_create_qp_ex.
  SpinLock build_lock;
  std::shared_ptr<Builder> builder;

  QueuePair() noexcept : extended{} {}
  [[nodiscard]] static QueuePair& of(ibv_qp* handle) noexcept {
    return *reinterpret_cast<QueuePair*>(handle);
  }
  // The state is in the public structure, where other threads look: always through these. Changed
  // under the lock.
  [[nodiscard]] ibv_qp_state state() noexcept {
    return std::atomic_ref{raw.state}.load(std::memory_order_relaxed);
  }
  void set_state(ibv_qp_state state) noexcept {
    known.forget();
    std::atomic_ref{raw.state}.store(state, std::memory_order_relaxed);
  }
  /// The ring that its receives come from: its own, or the shared queue's.
  [[nodiscard]] ReceiveRing& receive_ring() noexcept {
    return shared_receives != nullptr ? shared_receives->receives : receives;
  }
};

static_assert(offsetof(Domain, raw) == 0 && offsetof(Region, raw) == 0);

}  // namespace verbatim::engine
