// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/completer/shared_ring.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>

#include "soft/memory/copy.hpp"
#include "soft/memory/process_copy.hpp"
#include "soft/memory/reach.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// When a payload is placed. `polled`: the program polls for the completion, so the memory is still
/// there. `settled`: the library needs the memory up to date now, and the program may already have
/// unmapped it.
enum class Placing : std::uint8_t { polled, settled };

/// Scatters a payload that came with the completion into the receive's memory. Checks the regions
/// once more, and drops the rest of the payload if one of them is gone.
void place(const Peer& self, const OwnReceive& receive, const std::byte* data, std::uint32_t size,
           Placing placing) noexcept {
  for (std::uint32_t i = 0; i < receive.count && size > 0; ++i) {
    const ibv_sge& element = receive.elements[i];
    const std::uint32_t part = std::min(size, element.length);
    if (part == 0) continue;
    const SharedRegion& region = self.region(region_index(element.lkey));
    if (region.key.load(std::memory_order_acquire) != element.lkey) return;
    auto* const to = reinterpret_cast<std::byte*>(region.address + (element.addr - region.base));
    if (placing == Placing::polled) [[likely]]
      copy_bytes(to, data, part);
    else
      write_if_mapped(to, data, part);
    data += part;
    size -= part;
  }
}

/// A copy of an entry, made before its fields are checked. No peer can change the copy.
struct Claim {
  std::uint32_t number;  ///< Of the receive.
  std::uint32_t byte_count;
  std::uint32_t position;  ///< In the arena, if the payload is there.
  Payload payload;
  std::uint8_t opcode;
  std::uint8_t status;

  explicit Claim(const CompletionEntry& entry) noexcept
      : number(once(entry.head.receive)),
        byte_count(once(entry.head.byte_count)),
        payload(once(entry.head.payload)),
        opcode(once(entry.head.opcode)),
        status(once(entry.head.status)) {
    std::memcpy(&position, entry.data, sizeof position);
  }

  /// Whether a message of this size could have arrived for this receive in this way.
  [[nodiscard]] bool fits(const OwnReceive& receive, const Arena& arena) const noexcept {
    // Only the status of a failed completion means anything. It carries no data.
    if (status != IBV_WC_SUCCESS) return payload == Payload::placed && byte_count == 0;
    // For a write with immediate this is the size of the write, which the receive does not limit.
    if (opcode == IBV_WC_RECV_RDMA_WITH_IMM) return payload == Payload::placed;
    if (opcode != IBV_WC_RECV || byte_count > receive.length) return false;
    switch (payload) {
      case Payload::placed: return true;
      case Payload::in_entry: return byte_count <= kEntryPayload;
      case Payload::in_arena:
        return byte_count <= arena.size && arena.place(position) <= arena.size - byte_count;
    }
    return false;  // A peer can write any value here.
  }
};

/// Returns the receive that an entry completes, or nullptr if the entry makes no sense.
OwnReceive* receive_of(const Claim& claim, const ReceiveRing& ring, const Arena& arena) noexcept {
  OwnReceive& receive = ring.own_at(claim.number);
  if (!receive.in_use.load(std::memory_order_acquire) || receive.number != claim.number ||
      !claim.fits(receive, arena))
    return nullptr;
  return &receive;
}

/// How much room a payload takes in the arena.
constexpr std::uint32_t arena_room(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kArenaUnit - 1) / kArenaUnit * kArenaUnit);
}

/// The payload has been copied out of the arena, so producers may reuse its room.
void free_arena(CompletionQueue& queue, const Claim& claim) noexcept {
  queue.shared->arena_head.store(claim.position + arena_room(claim.byte_count),
                                 std::memory_order_release);
}

/// The completion for the program. Status, opcode and size were checked. A peer that lies in the
/// other fields can mislead only this program.
[[gnu::always_inline]] inline ibv_wc completion_of(const ReceiveSide& side,
                                                   const OwnReceive& receive, std::uint8_t status,
                                                   std::uint8_t opcode, std::uint32_t size,
                                                   const EntryHead& head) noexcept {
  return {.wr_id = receive.id,
          .status = static_cast<ibv_wc_status>(status),
          .opcode = static_cast<ibv_wc_opcode>(opcode),
          .vendor_err = 0,
          .byte_len = size,
          .imm_data = head.immediate,
          .qp_num = side.number,
          .src_qp = head.source,
          .wc_flags = head.flags,
          .pkey_index = 0,
          .slid = static_cast<std::uint16_t>(head.source_lid),
          .sl = 0,
          .dlid_path_bits = 0};
}

/// Turns an entry into a completion and places its payload. False: it makes no sense.
bool take_entry(Engine& engine, CompletionQueue& queue, const CompletionEntry& entry,
                const Arena& arena, Placing placing, OwnCompletion& out) noexcept {
  const ReceiveSide* const side = engine.receive_sides.at(once(entry.head.queue_pair));
  if (side == nullptr || side->queue != &queue) return false;
  ReceiveRing& ring = *side->ring;
  const Claim claim{entry};
  OwnReceive* const receive = receive_of(claim, ring, arena);
  if (receive == nullptr) return false;
  if (claim.payload != Payload::placed) {
    const std::byte* const data =
        claim.payload == Payload::in_entry ? entry.data : arena.data + arena.place(claim.position);
    place(engine.self(), *receive, data, claim.byte_count, placing);
    // Nobody uses the arena of a late ring again.
    if (claim.payload == Payload::in_arena && arena.data == queue.arena) free_arena(queue, claim);
  }
  out.wc = completion_of(*side, *receive, claim.status, claim.opcode, claim.byte_count, entry.head);
  out.queue_pair = side->queue_pair;
  out.ring = &ring;
  out.number = claim.number;
  out.is_receive = true;
  out.is_rare = true;
  // This store comes last, because from then on the posting thread may reuse the place.
  receive->in_use.store(false, std::memory_order_release);
  return true;
}

/// Like take_entry(), for the most common case: the program polls a small message into a receive of
/// one element. Takes 70 instructions; take_entry() takes 150. Returns false if it did nothing.
[[nodiscard, gnu::always_inline]] inline bool take_small(Engine& engine,
                                                         const CompletionQueue& queue,
                                                         const CompletionEntry& entry,
                                                         ibv_wc& out) noexcept {
  const EntryHead& head = entry.head;
  const ReceiveSide* const side = engine.receive_sides.at(once(head.queue_pair));
  if (side == nullptr || side->queue != &queue || once(head.payload) != Payload::in_entry ||
      once(head.opcode) != IBV_WC_RECV || once(head.status) != IBV_WC_SUCCESS)
    return false;
  const std::uint32_t number = once(head.receive);
  const std::uint32_t size = once(head.byte_count);
  OwnReceive& receive = side->ring->own_at(number);
  const ibv_sge& element = receive.elements[0];
  const SharedRegion& region = engine.self().region(region_index(element.lkey));
  if (!receive.in_use.load(std::memory_order_acquire) || receive.number != number ||
      receive.count != 1 || size > element.length || size - 1 >= kEntryPayload ||
      region.key.load(std::memory_order_acquire) != element.lkey)
    return false;
  auto* const to = reinterpret_cast<std::byte*>(region.address + (element.addr - region.base));
  copy_small(to, entry.data, size);
  out = completion_of(*side, receive, IBV_WC_SUCCESS, IBV_WC_RECV, size, head);
  receive.in_use.store(false, std::memory_order_release);
  retire_receive(*side->ring);
  return true;
}

/// Returns the entry with that number, or nullptr if no peer has written it yet.
const CompletionEntry* entry_at(const CompletionQueue& queue, std::uint32_t number) noexcept {
  const CompletionEntry& entry =
      queue.entries.load(std::memory_order_relaxed)[number & (queue.capacity - 1)];
  return entry.sequence.load(std::memory_order_acquire) == number + 1 ? &entry : nullptr;
}

/// The entries before `head` have been taken, so producers may reuse their places.
void set_head(CompletionQueue& queue, std::uint32_t head) noexcept {
  queue.shared_head.store(head, std::memory_order_release);
  queue.shared->head.store(head, std::memory_order_release);
}

/// The next completion in one of the rings that the queue had before. False: there is none.
bool take_late(Engine& engine, CompletionQueue& queue, Placing placing,
               OwnCompletion& out) noexcept {
  for (std::uint32_t i = 0; i < queue.late_count; ++i) {
    LateRing& late = queue.late[i];
    for (;;) {
      const CompletionEntry& entry = late.entries[late.next & (late.capacity - 1)];
      if (entry.sequence.load(std::memory_order_acquire) != late.next + 1) break;
      const bool taken = take_entry(engine, queue, entry, late.arena, placing, out);
      ++late.next;
      ProducerLine& line = queue.shared->lines[late.line];
      const std::uint32_t end = line.riding_end.load();
      if (static_cast<std::int32_t>(end - late.next) <= 0) line.riding_settled.store(end);
      if (taken) return true;
    }
  }
  return false;
}

/// The next completion that a peer wrote, for `keep`. False: there is none.
template <class Keep>
bool take_next(Engine& engine, CompletionQueue& queue, Placing placing, const Keep& keep) noexcept {
  OwnCompletion out;
  for (;;) {
    const std::uint32_t at = queue.shared_head.load(std::memory_order_relaxed);
    // Before the late rings: what its sender wrote earlier into one of them comes first.
    const CompletionEntry* const entry = entry_at(queue, at);
    if (queue.late_count != 0 && take_late(engine, queue, placing, out)) {
      keep(out);
      return true;
    }
    if (entry == nullptr) return false;
    const bool taken =
        take_entry(engine, queue, *entry, {queue.arena, queue.arena_bytes}, placing, out);
    // Before it leaves the ring, so that a thread without the lock finds it somewhere (is_empty()).
    if (taken) keep(out);
    set_head(queue, at + 1);
    if (taken) return true;
  }
}

/// Like take_shared(), while there are late rings.
[[gnu::cold]] int take_with_late(Engine& engine, CompletionQueue& queue, int count,
                                 ibv_wc* completions) noexcept {
  int taken = 0;
  const auto hand_out = [&](const OwnCompletion& done) {
    completions[taken++] = done.wc;
    retire_receive(*done.ring);
  };
  while (taken < count && take_next(engine, queue, Placing::polled, hand_out)) {
  }
  return taken;
}

/// Finds room for a payload in the arena. Returns false if there is none. The caller holds the
/// lock.
bool find_arena(const QueueView& view, std::uint32_t bytes, std::uint32_t& position) noexcept {
  if (bytes > view.arena_bytes) return false;
  const SharedCompletionQueue& queue = *view.queue;
  ProducerLine& line = *view.line;
  const std::uint32_t mask = view.arena_bytes - 1;
  position = line.arena_tail & ~(kArenaUnit - 1);
  // A payload must be contiguous. If it does not fit before the end of the arena, it goes to the
  // beginning.
  if ((position & mask) + bytes > view.arena_bytes) position = (position | mask) + 1;
  const std::uint32_t end = position + arena_room(bytes);
  if (end - line.arena_seen > view.arena_bytes) {
    line.arena_seen = queue.arena_head.load(std::memory_order_acquire);
    // The ring is empty, so the whole arena is free, whatever an earlier producer left there.
    if (queue.head.load(std::memory_order_acquire) == line.tail.load(std::memory_order_relaxed))
      line.arena_seen = position;
    if (end - line.arena_seen > view.arena_bytes) return false;
  }
  line.arena_tail = end;
  return true;
}

void write_payload(std::byte* to, const RemoteCompletion& completion) noexcept {
  if (!completion.header.empty())
    copy_bytes(to, completion.header.data(), completion.header.size());
  gather(*completion.data, to + completion.header.size());
}

}  // namespace

bool look_at(Peer& peer, SharedCompletionQueue& queue, QueueView& view) noexcept {
  // The owner may be about to write these two, so they may not belong together: is_current() tells.
  const std::uint64_t ring = queue.ring.load(std::memory_order_acquire);
  const std::uint32_t capacity = once(queue.capacity);
  const std::uint64_t entries = offset_of(ring);
  if (ring - entries >= kProducerLines || !std::has_single_bit(capacity) ||
      entries < kRingsOffset || entries >= kSegmentBytes ||
      ring_bytes_of(capacity) > kSegmentBytes - entries)
    return false;
  auto* const base = reinterpret_cast<std::byte*>(&peer.segment()) + entries;
  view = {.queue = &queue,
          .line = &queue.lines[line_of(ring)],
          .entries = reinterpret_cast<CompletionEntry*>(base),
          .arena = base + std::uint64_t{capacity} * sizeof(CompletionEntry),
          .ring = ring,
          .capacity = capacity,
          .arena_bytes = arena_bytes_of(capacity)};
  return true;
}

void notify(Engine& engine, Peer& owner, SharedCompletionQueue& queue, std::uint32_t index,
            bool solicited) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::uint32_t armed = queue.armed.load(std::memory_order_relaxed);
  if (armed == no || armed == telling || (armed == solicited_only && !solicited)) return;
  if (!queue.armed.compare_exchange_strong(armed, telling)) return;  // Another thread notifies.
  if (!write_event(engine, owner, queue, index)) {
    // If an earlier event waits already, it stands for this one, too. Of a peer we cannot tell: a
    // producer may have been killed before it called.
    const bool waits = queue.unheard.exchange(1) != 0;
    if (!waits || !owner.is_self()) engine.call_attention(owner);
  }
  armed = telling;
  queue.armed.compare_exchange_strong(armed, no);  // Unless it was armed again.
}

bool write_event(Engine& engine, Peer& owner, SharedCompletionQueue& queue,
                 std::uint32_t index) noexcept {
  const std::uint32_t message[2] = {index, queue.generation.load()};
  return owner.write_channel(engine.directory(), queue.channel, std::as_bytes(std::span{message}));
}

int take_shared(Engine& engine, CompletionQueue& queue, int count, ibv_wc* completions) noexcept {
  if (queue.late_count != 0) [[unlikely]]
    return take_with_late(engine, queue, count, completions);
  const std::uint32_t first = queue.shared_head.load(std::memory_order_relaxed);
  std::uint32_t at = first;
  int taken = 0;
  for (; taken < count; ++at) {
    const CompletionEntry* const entry = entry_at(queue, at);
    if (entry == nullptr) break;
    // In a burst, prefetch the next entries while this one is handed out. Not for a single message,
    // because its sender is about to write to those lines.
    if (at != first)
      __builtin_prefetch(
          &queue.entries.load(std::memory_order_relaxed)[(at + 3) & (queue.capacity - 1)]);
    if (take_small(engine, queue, *entry, completions[taken])) [[likely]] {
      ++taken;
      continue;
    }
    OwnCompletion done;
    const Arena arena{queue.arena, queue.arena_bytes};
    if (!take_entry(engine, queue, *entry, arena, Placing::polled, done)) continue;
    completions[taken++] = done.wc;
    retire_receive(*done.ring);
  }
  if (at != first) set_head(queue, at);
  return taken;
}

namespace {

Pushed append(Engine& engine, Peer& peer, SharedCompletionQueue& queue, QueueView& view,
              const RemoteCompletion& completion) noexcept {
  if ((view.queue != &queue || !view.is_current()) && !look_at(peer, queue, view)) [[unlikely]]
    return Pushed::not_now;
  ProducerLine& line = *view.line;
  const TaggedGuard guard{line.lock, engine.tag(), engine.peers(), LockRank::completions};
  if (!guard) {  // Its holder is stopped. The owner can give us another line.
    queue.stuck.store(line.lock.load());
    engine.call_attention(peer);
    return Pushed::not_now;
  }
  if (!view.is_current()) [[unlikely]]
    return Pushed::not_now;
  std::uint32_t tail = line.tail.load(std::memory_order_relaxed);
  // A process that was killed while it held the lock may have published an entry without counting
  // it.
  if (guard.taken_over() && view.entry(tail).sequence.load() == tail + 1) line.tail.store(++tail);
  if (!has_room(view, tail)) {
    // If we were stopped meanwhile, we compared our place with those in another ring.
    if (!view.is_current()) return Pushed::not_now;
    queue.failed.store(1);
    engine.call_attention(peer);
    return Pushed::full;
  }
  CompletionEntry& entry = view.entry(tail);
  if (completion.head.payload == Payload::in_entry) {
    write_payload(entry.data, completion);
  } else if (completion.head.payload == Payload::in_arena) {
    std::uint32_t position = 0;
    if (!find_arena(view, completion.head.byte_count, position)) return Pushed::no_arena;
    write_payload(view.arena + (position & (view.arena_bytes - 1)), completion);
    std::memcpy(entry.data, &position, sizeof position);
  }
  publish(view, tail, completion.head);
  return Pushed::yes;
}

}  // namespace

Pushed push_remote(Engine& engine, Peer& peer, std::uint32_t index, QueueView& view,
                   const RemoteCompletion& completion) noexcept {
  if (index >= kCompletionQueues) return Pushed::full;
  SharedCompletionQueue& queue = peer.segment().completion_queues[index];
  const Pushed pushed = append(engine, peer, queue, view, completion);
  if (pushed == Pushed::yes && queue.channel != 0)
    notify(engine, peer, queue, index,
           completion.solicited || completion.head.status != IBV_WC_SUCCESS);
  return pushed;
}

void settle_locked(Engine& engine, CompletionQueue& queue) noexcept {
  const auto keep = [&queue](const OwnCompletion& done) {
    const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
    queue.ring[tail & (queue.capacity - 1)] = done;
    queue.tail.store(tail + 1, std::memory_order_release);
    ++queue.own_receives;
  };
  while (queue.tail - queue.head < queue.capacity &&
         take_next(engine, queue, Placing::settled, keep)) {
  }
  queue.shared->own_count.store(queue.tail - queue.head, std::memory_order_relaxed);
}

void settle(Engine& engine, CompletionQueue& queue) noexcept {
  const std::lock_guard lock{queue.lock};
  settle_locked(engine, queue);
}

void Engine::settle() noexcept {
  completion_queues.for_each([this](CompletionQueue& queue) { engine::settle(*this, queue); });
}

void purge(Engine& engine, CompletionQueue& queue, const ReceiveSide& gone) noexcept {
  const std::lock_guard lock{queue.lock};
  settle_locked(engine, queue);
  std::uint32_t kept = queue.head.load();
  for (std::uint32_t at = queue.head; at != queue.tail; ++at) {
    const OwnCompletion& done = queue.ring[at & (queue.capacity - 1)];
    if (done.is_of(gone)) {
      if (done.is_receive) {
        retire_receive(*done.ring);
        --queue.own_receives;
      }
      continue;
    }
    queue.ring[kept++ & (queue.capacity - 1)] = done;
  }
  for (std::uint32_t at = kept; at != queue.tail; ++at) queue.ring[at & (queue.capacity - 1)] = {};
  queue.tail.store(kept);
  queue.shared->own_count.store(kept - queue.head, std::memory_order_relaxed);
}

}  // namespace verbatim::engine
