// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/completer/shared_ring.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "soft/memory/copy.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

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

}  // namespace

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

void retire_receive(QueuePair& queue_pair) noexcept {
  if (queue_pair.shared_receives != nullptr) {  // Completion queues share it: an atomic.
    queue_pair.shared_receives->receives.returned.fetch_add(1, std::memory_order_release);
    return;
  }
  std::atomic<std::uint32_t>& returned = queue_pair.receives.returned;
  returned.store(returned.load(std::memory_order_relaxed) + 1, std::memory_order_release);
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

}  // namespace verbatim::engine
