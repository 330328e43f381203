// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/completion.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "soft/copy.hpp"
#include "soft/engine.hpp"
#include "soft/events.hpp"
#include "soft/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

enum Armed : std::uint32_t { no, solicited_only, any };

/// Wakes whoever sleeps on the queue's channel, if it is armed for this completion. `Dekker`: the
/// owner arms, then looks at the ring; we publish, then look whether it is armed.
void notify(Engine& engine, Peer& owner, SharedCompletionQueue& queue, std::uint32_t index,
            bool solicited) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint32_t armed = queue.armed.load(std::memory_order_relaxed);
  if (armed == no || (armed == solicited_only && !solicited)) return;
  if (!queue.armed.compare_exchange_strong(armed, no)) return;  // Somebody else does it.
  const std::uint32_t message[2] = {index, queue.generation.load()};
  const int fd = owner.channel(engine.directory(), queue.channel);
  if (fd >= 0 && write(fd, message, sizeof message) < 0) {
    // A full FIFO has thousands of wake-ups in it: one more tells nothing new.
  }
}

/// Scatters a payload that came with the completion into the receive's memory.
void place(const OwnReceive& receive, const std::byte* data, std::uint32_t size) noexcept {
  for (std::uint32_t i = 0; i < receive.count && size > 0; ++i) {
    const std::uint32_t part = std::min(size, receive.elements[i].length);
    copy_bytes(reinterpret_cast<std::byte*>(receive.elements[i].addr), data, part);
    data += part;
    size -= part;
  }
}

/// Reads a number that a peer may change at any time: once, so that what was checked is used.
template <class T>
T once(const T& shared) noexcept {
  return std::atomic_ref{const_cast<T&>(shared)}.load(std::memory_order_relaxed);
}

/// What is known of an entry before it is believed: a copy, where no peer can write.
struct Claim {
  std::uint32_t slot;
  std::uint32_t byte_count;
  Payload payload;
  std::uint8_t opcode;
  std::uint8_t status;

  explicit Claim(const CompletionEntry& entry) noexcept
      : slot(once(entry.slot)),
        byte_count(once(entry.byte_count)),
        payload(once(entry.payload)),
        opcode(once(entry.opcode)),
        status(once(entry.status)) {}

  /// Whether so many bytes can have come for this receive, in this way.
  [[nodiscard]] bool fits(const OwnReceive& receive, const ReceiveRing& ring) const noexcept {
    // Of a failure only the status means anything; nothing came.
    if (status != IBV_WC_SUCCESS) return payload == Payload::placed && byte_count == 0;
    // A write with immediate tells how much was written elsewhere: not bounded by the receive.
    if (opcode == IBV_WC_RECV_RDMA_WITH_IMM) return payload == Payload::placed;
    if (opcode != IBV_WC_RECV || byte_count > receive.length) return false;
    switch (payload) {
      case Payload::placed: return true;
      case Payload::in_entry: return byte_count <= kEntryPayload;
      case Payload::in_slot: return byte_count <= ring.eager_bytes;
    }
    return false;  // Peers can write any number.
  }
};

/// The receive that an entry completes, if the entry makes sense.
OwnReceive* receive_of(const Claim& claim, ReceiveRing& ring) noexcept {
  OwnReceive& receive = ring.own[claim.slot & (ring.capacity - 1)];
  if (!receive.in_use.load(std::memory_order_acquire) || receive.number != claim.slot ||
      !claim.fits(receive, ring))
    return nullptr;
  return &receive;
}

/// Turns the next entry that a peer wrote into a completion. Nothing in it is trusted: an entry
/// that makes no sense is skipped. False: there is none.
bool take_shared(Engine& engine, CompletionQueue& queue, OwnCompletion& out) noexcept {
  for (;;) {
    const std::uint32_t at = queue.shared_head.load(std::memory_order_relaxed);
    const CompletionEntry& entry = queue.entries[at & (queue.capacity - 1)];
    if (entry.sequence.load(std::memory_order_acquire) != at + 1) return false;
    QueuePair* const queue_pair = engine.queue_pairs.at(once(entry.queue_pair));
    OwnReceive* receive = nullptr;
    if (queue_pair != nullptr && queue_pair->receive_queue == &queue) {
      ReceiveRing& ring = queue_pair->receive_ring();
      const Claim claim{entry};
      receive = receive_of(claim, ring);
      if (receive != nullptr) {
        if (claim.payload == Payload::in_entry) place(*receive, entry.data, claim.byte_count);
        if (claim.payload == Payload::in_slot)
          place(*receive, ring.eager_of(claim.slot), claim.byte_count);
        out.wc = {.wr_id = receive->id,
                  .status = static_cast<ibv_wc_status>(claim.status),
                  .opcode = static_cast<ibv_wc_opcode>(claim.opcode),
                  .vendor_err = 0,
                  .byte_len = claim.byte_count,
                  .imm_data = entry.immediate,
                  .qp_num = queue_pair->raw.qp_num,
                  .src_qp = entry.source,
                  .wc_flags = entry.flags,
                  .pkey_index = 0,
                  .slid = 0,
                  .sl = 0,
                  .dlid_path_bits = 0};
        out.queue_pair = queue_pair;
        out.number = claim.slot;
        out.is_receive = true;
        out.is_rare = true;
        // Last: from now on the thread that posts may use the place again.
        receive->in_use.store(false, std::memory_order_release);
      }
    }
    queue.shared_head.store(at + 1, std::memory_order_relaxed);
    queue.shared->head.store(at + 1, std::memory_order_release);
    if (receive != nullptr) return true;
  }
}

/// The program has seen it: the receive's place in its queue is free again.
void retire_receive(QueuePair& queue_pair) noexcept {
  if (queue_pair.shared_receives != nullptr) {  // Completion queues share it: an atomic.
    queue_pair.shared_receives->receives.returned.fetch_add(1, std::memory_order_release);
    return;
  }
  std::atomic<std::uint32_t>& returned = queue_pair.receives.returned;
  returned.store(returned.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

void overrun_queue(CompletionQueue& queue) noexcept {
  if (queue.overrun.exchange(true)) return;
  raise_event(Context::of(queue.raw.context), IBV_EVENT_CQ_ERR, queue.handle());
  queue.engine->segment().attention.store(1);  // Its queue pairs go to the error state.
}

bool has_room(const CompletionQueue& queue, std::uint32_t count) noexcept {
  const std::uint32_t of_peers =
      queue.shared->tail.load() - queue.shared_head.load(std::memory_order_relaxed);
  return count + of_peers < queue.depth;
}

void notify_own(CompletionQueue& queue, bool solicited) noexcept {
  Engine& engine = *queue.engine;
  notify(engine, *engine.peers().find(engine.own().slot()), *queue.shared, queue.index, solicited);
}

bool push_remote(Engine& engine, Peer& peer, std::uint32_t index,
                 const RemoteCompletion& completion) noexcept {
  if (index >= kCompletionQueues) return false;
  SharedCompletionQueue& queue = peer.segment().completion_queues[index];
  const Acquired acquired = acquire(queue.lock, engine.tag(), engine.peers());
  if (acquired == Acquired::no) return false;
  const std::uint32_t capacity = queue.capacity;
  const std::uint64_t ring = queue.ring;
  // The peer's numbers decide where we write: in its segment, and nowhere else.
  const bool sane = capacity != 0 && (capacity & (capacity - 1)) == 0 && ring >= kRingsOffset &&
                    ring < kSegmentBytes && ring % alignof(CompletionEntry) == 0 &&
                    std::uint64_t{capacity} * sizeof(CompletionEntry) <= kSegmentBytes - ring;
  if (!sane) {
    release(queue.lock);
    return false;
  }
  auto* const entries =
      reinterpret_cast<CompletionEntry*>(reinterpret_cast<std::byte*>(&peer.segment()) + ring);
  std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
  // A killed holder may have published an entry without counting it.
  if (acquired == Acquired::taken_over &&
      entries[tail & (capacity - 1)].sequence.load() == tail + 1)
    queue.tail.store(++tail);
  std::uint32_t used = tail - queue.head_seen;
  if (used + 1 >= queue.depth / 2) {
    queue.head_seen = queue.head.load(std::memory_order_acquire);
    used = tail - queue.head_seen + queue.own_count.load(std::memory_order_relaxed);
  }
  if (used >= queue.depth) {
    queue.failed.store(1);
    release(queue.lock);
    peer.call_attention();
    return false;
  }
  CompletionEntry& entry = entries[tail & (capacity - 1)];
  entry.opcode = completion.opcode;
  entry.flags = completion.flags;
  entry.payload = completion.payload;
  entry.status = completion.status;
  entry.queue_pair = completion.queue_pair;
  entry.slot = completion.slot;
  entry.byte_count = completion.byte_count;
  entry.immediate = completion.immediate;
  entry.source = completion.source;
  if (!completion.data.empty())
    copy_bytes(entry.data, completion.data.data(), completion.data.size());
  entry.sequence.store(tail + 1, std::memory_order_release);
  queue.tail.store(tail + 1, std::memory_order_relaxed);
  release(queue.lock);
  if (queue.channel != 0)
    notify(engine, peer, queue, index, completion.solicited || completion.status != IBV_WC_SUCCESS);
  return true;
}

void absorb(Engine& engine, CompletionQueue& queue) noexcept {
  const std::lock_guard lock{queue.lock};
  OwnCompletion done;
  while (queue.tail - queue.head < queue.capacity && take_shared(engine, queue, done)) {
    const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
    queue.ring[tail & (queue.capacity - 1)] = done;
    queue.tail.store(tail + 1, std::memory_order_release);
  }
  queue.shared->own_count.store(queue.tail - queue.head, std::memory_order_relaxed);
}

void purge(Engine& engine, CompletionQueue& queue, const QueuePair& gone) noexcept {
  absorb(engine, queue);
  const std::lock_guard lock{queue.lock};
  std::uint32_t kept = queue.head.load();
  for (std::uint32_t at = queue.head; at != queue.tail; ++at) {
    const OwnCompletion& done = queue.ring[at & (queue.capacity - 1)];
    if (done.queue_pair == &gone) {
      if (done.is_receive) retire_receive(*done.queue_pair);
      continue;
    }
    queue.ring[kept++ & (queue.capacity - 1)] = done;
  }
  for (std::uint32_t at = kept; at != queue.tail; ++at) queue.ring[at & (queue.capacity - 1)] = {};
  queue.tail.store(kept);
  queue.shared->own_count.store(kept - queue.head, std::memory_order_relaxed);
}

namespace {

/// Hands out any completions, behind `taken` of `count`. The lock is held, and released here.
[[gnu::noinline]] int take_any(CompletionQueue& queue, int count, ibv_wc* completions,
                               int taken) noexcept {
  const std::lock_guard lock{queue.lock, std::adopt_lock};
  std::uint32_t head = queue.head.load(std::memory_order_relaxed);
  const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
  for (; taken < count && head != tail; ++head, ++taken) {
    OwnCompletion& done = queue.ring[head & (queue.capacity - 1)];
    *completions++ = done.wc;
    if (done.is_receive)
      retire_receive(*done.queue_pair);
    else
      done.queue_pair->retired.store(done.number + 1, std::memory_order_release);
    if (done.is_rare) done = {};
  }
  queue.head.store(head, std::memory_order_relaxed);
  queue.shared->own_count.store(tail - head, std::memory_order_relaxed);
  OwnCompletion done;
  for (; taken < count && take_shared(*queue.engine, queue, done); ++taken) {
    *completions++ = done.wc;
    retire_receive(*done.queue_pair);
  }
  return taken;
}

/// Whether a peer wrote the next entry of the shared ring.
[[gnu::always_inline]] inline bool peers_wrote(const CompletionQueue& queue) noexcept {
  const std::uint32_t next = queue.shared_head.load(std::memory_order_relaxed);
  return queue.entries[next & (queue.capacity - 1)].sequence.load(std::memory_order_relaxed) ==
         next + 1;
}

[[gnu::noinline, gnu::cold]] int poll_after_progress(CompletionQueue& queue, int count,
                                                     ibv_wc* completions) noexcept {
  queue.engine->progress();
  queue.lock.lock();
  return take_any(queue, count, completions, 0);
}

}  // namespace

// Short, because programs call it again and again until there is something, and a leaf: what is
// not a completion of a send, or not alone, is for others.
int poll(ibv_cq* raw, int count, ibv_wc* completions) noexcept {
  CompletionQueue& queue = CompletionQueue::of(raw);
  if (queue.engine->has_work() || count <= 0) [[unlikely]]
    return poll_after_progress(queue, count, completions);
  const bool has_own =
      queue.head.load(std::memory_order_relaxed) != queue.tail.load(std::memory_order_acquire);
  if (!has_own && !peers_wrote(queue)) return 0;
  if (!queue.lock.try_lock()) [[unlikely]]
    return poll_after_progress(queue, count, completions);
  const std::uint32_t head = queue.head.load(std::memory_order_relaxed);
  const std::uint32_t ready = queue.tail.load(std::memory_order_relaxed) - head;
  const std::uint32_t wanted = std::min(ready, static_cast<std::uint32_t>(count));
  std::uint32_t taken = 0;
  for (; taken != wanted; ++taken, ++completions) {
    const OwnCompletion& done = queue.ring[(head + taken) & (queue.capacity - 1)];
    if (done.is_rare) [[unlikely]]
      break;
    *completions = done.wc;
    done.queue_pair->retired.store(done.number + 1, std::memory_order_release);
  }
  queue.head.store(head + taken, std::memory_order_relaxed);
  queue.shared->own_count.store(ready - taken, std::memory_order_relaxed);
  const auto done = static_cast<int>(taken);
  if (done != count && (taken != ready || peers_wrote(queue))) [[unlikely]]
    return take_any(queue, count, completions, done);
  queue.lock.unlock();
  return done;
}

int arm(ibv_cq* raw, int only_solicited) noexcept {
  CompletionQueue& queue = CompletionQueue::of(raw);
  const std::uint32_t wanted = only_solicited != 0 ? solicited_only : any;
  // Arming for any is not undone by arming for solicited only.
  if (queue.shared->armed.load() < wanted) queue.shared->armed.store(wanted);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // Pairs with notify().
  return 0;
}

}  // namespace verbatim::engine
