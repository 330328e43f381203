// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/responder/deliver.hpp"

#include <algorithm>
#include <span>

#include "soft/memory/access_guard.hpp"
#include "soft/memory/copy.hpp"
#include "soft/memory/reach.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// Calls the owner if this receive took a shared queue below its limit. The owner disarms the limit
/// when it raises the event. We may be killed before we have called, so every receive below the
/// limit calls until then.
void check_limit(const Sender& from, Peer& peer, SharedReceives& receives,
                 std::uint32_t taken) noexcept {
  const std::uint64_t limit = receives.limit.load(std::memory_order_relaxed);
  if (limit_of(limit) == 0) return;
  // Others may have taken more since. The last one finds the smallest count.
  const std::uint32_t count = taken - receives.passed.load(std::memory_order_relaxed);
  if (static_cast<std::int32_t>(receives.posted.load() - count) >=
      static_cast<std::int32_t>(limit_of(limit)))
    return;
  receives.limit_reached.store(limit);
  from.engine.call_attention(peer);
}

Outcome no_receive(const Sender& from, const Destination& to) noexcept {
  to.known.ring.receives->starved.store(from.engine.tag());
  return {Verdict::no_receive, IBV_WC_RNR_RETRY_EXC_ERR, 0, to.target.rnr_timer};
}

/// Takes the next receive, which is ours until complete_receive(). While we are inside, nobody else
/// takes from the queue pair's own ring. In a shared ring the receive is marked as taken for this
/// queue pair, so that it is not lost if we die.
Outcome take_receive(const Sender& from, const Destination& to, TakenReceive& taken) noexcept {
  Delivery& known = to.known;
  if (known.ring.receives == nullptr && !look_at(to.peer.segment(), to.target, known.ring))
    return not_ready();
  if (known.holds) [[unlikely]] {
    taken = known.held;
    return done(IBV_WC_SUCCESS);
  }
  const RingView& ring = known.ring;
  const Found found = ring.is_shared
                          ? take_shared_receive(ring, index_of(to.target.number) + 1, taken)
                          : find_receive(ring, taken);
  if (found != Found::yes) [[unlikely]]
    return found == Found::none ? no_receive(from, to) : not_ready();
  if (ring.is_shared) check_limit(from, to.peer, *ring.receives, taken.number + 1);
  return done(IBV_WC_SUCCESS);
}

/// Sets a mark of a region also on those that have memory in common with it. Its owner does the
/// same for a region that comes later (memory/registration.cpp).
void mark_others(Peer& owner, const SharedRegion& region, std::uint32_t bit) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (owner.segment().regions_overlap.load() == 0) [[likely]]
    return;
  const std::uint32_t count = std::min(owner.region_count(), kRegions);  // Peers can change it.
  for (std::uint32_t i = 0; i < count; ++i)
    if (overlap(owner.region(i), region)) owner.segment().region_marks[i].fetch_or(bit);
}

/// Whether an element of a receive is memory of the responder's domain that may be written.
/// Remembers a positive answer. From then on small messages may be on their way to that memory.
bool may_fill(const Destination& to, const SharedElement& element) noexcept {
  if (to.known.is_checked(element)) [[likely]]
    return true;
  if (element.length == 0) return true;
  Location ignored;
  if (!locate(
          to.peer,
          {element.key, to.target.domain, IBV_ACCESS_LOCAL_WRITE, element.address, element.length},
          ignored))
    return false;
  const std::uint32_t index = region_index(element.key);
  if (!to.peer.is_self()) {
    // A thread that needs the memory up to date looks into the queues of this group (is_unsettled).
    Word& mark = to.peer.segment().region_marks[index];
    const std::uint32_t group = to.target.receive_completions % kMarkGroups;
    if ((mark.load() & known_mark(group)) == 0) {
      mark.fetch_or(riding_mark(group));
      mark_others(to.peer, to.peer.region(index), riding_mark(group));
      to.peer.segment().changes.fetch_add(1);  // Makes cached copies of the region stale.
      // Last: another sender that finds it relies on all of this.
      mark.fetch_or(known_mark(group));
    }
  }
  const SharedRegion& region = to.peer.region(index);
  to.known.checked[index % Delivery::kChecked] = {element.key, region.base, region.length};
  return true;
}

bool may_fill(const Destination& to, const TakenReceive& taken) noexcept {
  for (std::uint32_t i = 0; i < taken.count; ++i)
    if (!may_fill(to, taken.elements[i])) return false;
  return true;
}

/// The bytes to be placed: reads the pieces in order.
class Source {
 public:
  explicit Source(const Pieces& pieces) noexcept : pieces_(pieces) {}
  [[nodiscard]] std::span<const std::byte> next(std::uint32_t most) noexcept {
    while (piece_ < pieces_.count && done_ == pieces_.all[piece_].size) {
      ++piece_;
      done_ = 0;
    }
    if (piece_ == pieces_.count) return {};
    const std::uint32_t size = std::min(most, pieces_.all[piece_].size - done_);
    const std::span<const std::byte> part{pieces_.all[piece_].data + done_, size};
    done_ += size;
    return part;
  }

 private:
  const Pieces& pieces_;
  std::uint32_t piece_ = 0;
  std::uint32_t done_ = 0;
};

/// Copies the message straight into the receive's memory, after the first `skip` bytes of it.
Copied place_directly(const Sender& from, const Destination& to, const TakenReceive& taken,
                      const Pieces& pieces, std::uint32_t skip) noexcept {
  Source source{pieces};
  std::uint64_t left = pieces.total;
  for (std::uint32_t i = 0; i < taken.count && left > 0; ++i) {
    SharedElement element = taken.elements[i];
    const std::uint32_t skipped = std::min(skip, element.length);
    skip -= skipped;
    element.address += skipped;
    element.length -= skipped;
    if (element.length == 0) continue;
    to.target.receives.touching.store(element.key, std::memory_order_relaxed);
    Location location;
    if (!Visit::is_open(to.target) ||
        !locate(to.peer,
                {element.key, to.target.domain, IBV_ACCESS_LOCAL_WRITE, element.address,
                 element.length},
                location))
      return Copied::no;
    while (element.length > 0 && left > 0) {
      const auto part = source.next(element.length);
      const Copied copied = write_memory(from.engine, location, part.data(), part.size());
      if (copied != Copied::yes) return copied;
      const auto size = static_cast<std::uint32_t>(part.size());
      location.advance(size);
      element.length -= size;
      left -= size;
    }
  }
  return Copied::yes;
}

/// Places the message and its header.
Copied place_message(const Sender& from, const Destination& to, const TakenReceive& taken,
                     const Pieces& pieces) noexcept {
  if (to.header == nullptr) return place_directly(from, to, taken, pieces, 0);
  ibv_grh header = *to.header;
  Pieces first;
  first.count = 1;
  first.total = sizeof header;
  first.all[0] = {reinterpret_cast<std::byte*>(&header), sizeof header};
  const Copied copied = place_directly(from, to, taken, pieces, sizeof header);
  return copied == Copied::yes ? place_directly(from, to, taken, first, 0) : copied;
}

/// Completes the receive, and removes it from the ring.
Pushed complete_receive(const Sender& from, const Destination& to, const TakenReceive& taken,
                        RemoteCompletion& completion) noexcept {
  completion.head.queue_pair = index_of(to.target.number);
  completion.head.receive = taken.number;
  completion.head.source = from.number;
  completion.head.source_lid = from.lid;
  // Marks the receive as taken before it is completed. If we are killed in between, the owner
  // flushes it, or offers it again (give_back_of_dead).
  if (!to.known.ring.is_shared)
    to.known.ring.receives->taken.store(taken.number + 1, std::memory_order_relaxed);
  const Pushed pushed =
      push_remote(from.engine, to.peer, to.target.receive_completions, to.known.queue, completion);
  if (pushed == Pushed::yes) [[likely]] {
    to.known.holds = false;
  } else if (to.known.ring.is_shared) {
    to.known.held = taken;
    to.known.holds = true;
  } else {
    to.known.ring.receives->taken.store(taken.number, std::memory_order_relaxed);
  }
  return pushed;
}

Outcome outcome_of(Pushed pushed, std::uint64_t bytes) noexcept {
  if (pushed == Pushed::yes) [[likely]]
    return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(bytes));
  return pushed == Pushed::full ? done(IBV_WC_REM_OP_ERR) : not_ready();
}

/// Whether an earlier payload is still on its way to the memory of this receive. It would overwrite
/// a message that is placed now. An unreliable message would be lost by waiting, so it does not.
bool is_awaited(const Sender& from, const Destination& to, const TakenReceive& taken,
                std::uint64_t size) noexcept {
  if (!from.is_reliable) return false;
  for (std::uint32_t i = 0; i < taken.count && size > 0; ++i) {
    const SharedElement& element = taken.elements[i];
    const std::uint64_t part = std::min<std::uint64_t>(size, element.length);
    if (part == 0) continue;
    const SharedRegion& region = to.peer.region(region_index(element.key));
    const std::uint64_t address = region.address + (element.address - region.base);
    if (is_unsettled(from.engine, to.peer, element.key, address, part)) return true;
    size -= part;
  }
  return false;
}

/// Fails a message that does not fit, or whose receive is invalid, as the responder sees it.
Outcome refuse_receive(const Sender& from, const Destination& to, const TakenReceive& taken,
                       ibv_wc_status theirs, ibv_wc_status ours) noexcept {
  RemoteCompletion failure;
  failure.head.status = static_cast<std::uint8_t>(theirs);
  static_cast<void>(complete_receive(from, to, taken, failure));
  break_target(from, to.peer, to.target, theirs);
  return done(ours);
}

/// The memory could not be reached. Either its owner is dead or about to die, or the receive is
/// invalid.
Outcome refuse_copy(const Sender& from, const Destination& to, const TakenReceive& taken,
                    Copied copied) noexcept {
  if (copied == Copied::not_now || !Visit::is_open(to.target)) {
    to.known.held = taken;
    to.known.holds = to.known.ring.is_shared;
    return not_ready();
  }
  if (!to.peer.is_alive() || !to.peer.has_memory()) return done(IBV_WC_RETRY_EXC_ERR);
  return refuse_receive(from, to, taken, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
}

}  // namespace

void break_target(const Sender& from, Peer& peer, SharedQueuePair& target,
                  std::uint32_t status) noexcept {
  if (!from.is_reliable) return;  // An unreliable message is only dropped.
  target.receives.fault.store(status);
  from.engine.call_attention(peer);
}

Outcome deliver(const Sender& from, const Destination& to, const ibv_send_wr& request,
                const Pieces& pieces) noexcept {
  TakenReceive taken;
  if (const Outcome taking = take_receive(from, to, taken); !succeeded(taking)) [[unlikely]]
    return taking;
  const std::uint64_t size = pieces.total + (to.header != nullptr ? sizeof(ibv_grh) : 0);
  if (size > taken.length)
    return refuse_receive(from, to, taken, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  if (!may_fill(to, taken))
    return refuse_receive(from, to, taken, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  RemoteCompletion completion;
  completion.head.opcode = IBV_WC_RECV;
  completion.head.flags = receive_flags(request);
  completion.head.immediate = request.imm_data;
  completion.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
  completion.head.byte_count = static_cast<std::uint32_t>(size);
  completion.data = &pieces;
  if (to.header != nullptr) {
    completion.head.flags |= IBV_WC_GRH;
    completion.header = std::as_bytes(std::span{to.header, 1});
  }
  // In our own process, a copy into the receive costs no more than a copy into the ring.
  completion.head.payload = to.peer.is_self() || size > kEagerBytes ? Payload::placed
                            : size <= kEntryPayload                 ? Payload::in_entry
                                                                    : Payload::in_arena;
  if (completion.head.payload != Payload::placed) {
    const Pushed pushed = complete_receive(from, to, taken, completion);
    if (pushed != Pushed::no_arena) [[likely]]
      return outcome_of(pushed, pieces.total);
    to.known.holds = false;
    completion.head.payload = Payload::placed;
  }
  const Copied copied =
      is_awaited(from, to, taken, size) ? Copied::not_now : place_message(from, to, taken, pieces);
  if (copied != Copied::yes) return refuse_copy(from, to, taken, copied);
  return outcome_of(complete_receive(from, to, taken, completion), pieces.total);
}

void give_back(const Sender& from, const Destination& to) noexcept {
  // Senders may have taken later receives meanwhile, so the owner has to post it again. In the
  // error state the owner takes it back by itself.
  if (!to.known.holds || !Visit::is_open(to.target)) return;
  to.known.holds = false;
  const std::uint32_t taker = index_of(to.target.number) + 1;
  offer_back(to.known.ring.slot(to.known.held.number), taker);
  to.known.ring.receives->given_back.store(1);
  from.engine.call_attention(to.peer);
}

void give_back_of_dead(const Sender& from, const Destination& to) noexcept {
  RingView& ring = to.known.ring;
  if (!look_at(to.peer.segment(), to.target, ring)) return;
  // Receives that were completed may be among them. Their owner knows which.
  if (ring.is_shared) {
    for (std::uint32_t place = 0; place <= ring.mask; ++place)
      offer_back(ring.slot(place), index_of(to.target.number) + 1);
  } else {
    const std::uint32_t last = ring.receives->taken.load() - 1;
    std::uint64_t state = slot_state(last, 0);
    ring.slot(last).state.compare_exchange_strong(state, slot_state(last, kGivenBack));
  }
  ring.receives->given_back.store(1);
  from.engine.call_attention(to.peer);
}

Outcome claim_receive(const Sender& from, const Destination& to) noexcept {
  TakenReceive taken;
  const Outcome taking = take_receive(from, to, taken);
  if (succeeded(taking)) {
    to.known.held = taken;
    to.known.holds = true;
  }
  return taking;
}

Outcome announce(const Sender& from, const Destination& to, const ibv_send_wr& request,
                 std::uint64_t bytes) noexcept {
  const TakenReceive taken = to.known.held;
  to.known.holds = false;
  RemoteCompletion completion;
  completion.head.opcode = static_cast<std::uint8_t>(IBV_WC_RECV_RDMA_WITH_IMM);
  completion.head.flags = receive_flags(request);
  completion.head.immediate = request.imm_data;
  completion.head.byte_count = static_cast<std::uint32_t>(bytes);
  completion.head.payload = Payload::placed;
  completion.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
  return outcome_of(complete_receive(from, to, taken, completion), bytes);
}

namespace {

/// Whether a payload that waits in the queue goes to this range of its owner's memory.
bool waits_for(Peer& owner, const CompletionEntry& entry, std::uint64_t address,
               std::uint64_t length) noexcept {
  if (entry.head.payload == Payload::placed) return false;
  SharedQueuePair* const queue_pair = owner.queue_pair(entry.head.queue_pair);
  RingView ring;
  if (queue_pair == nullptr || !look_at(owner.segment(), *queue_pair, ring)) return false;
  TakenReceive receive;
  copy_receive(ring, entry.head.receive, receive);
  std::uint32_t left = entry.head.byte_count;
  for (std::uint32_t i = 0; i < receive.count && left > 0; ++i) {
    const SharedElement& element = receive.elements[i];
    const std::uint32_t part = std::min(left, element.length);
    left -= part;
    const std::uint32_t index = region_index(element.key);
    if (index >= owner.region_count()) continue;
    const SharedRegion& region = owner.region(index);
    const std::uint64_t at = region.address + (element.address - region.base);
    if (at < address + length && address < at + part) return true;
  }
  return false;
}

/// Whether a payload waits in a ring that the queue had before this line was its current one.
bool holds_late_payload(const SharedCompletionQueue& queue, const ProducerLine& current) noexcept {
  if (queue.late.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  for (std::uint32_t i = 0; i < kProducerLines; ++i)
    if (&queue.lines[i] != &current &&
        queue.lines[i].riding_end.load() != queue.lines[i].riding_settled.load())
      return true;
  return false;
}

bool holds_payload(Peer& owner, SharedCompletionQueue& queue, std::uint64_t address,
                   std::uint64_t length) noexcept {
  // First, because the owner counts a late ring before it names another line. So either we find the
  // line that was current when our earlier message went, or that its ring is late.
  ProducerLine& line = current_line(queue);
  if (holds_late_payload(queue, line)) return true;
  // These two are in the line of producers. The line of `head`, which the owner writes, took 19 ns
  // of a message of 4 KiB that took 240.
  const std::uint32_t end = line.riding_end.load(std::memory_order_relaxed);
  if (end == line.riding_settled.load(std::memory_order_relaxed)) return false;
  const std::uint32_t head = queue.head.load(std::memory_order_acquire);
  if (static_cast<std::int32_t>(end - head) <= 0) {
    line.riding_settled.store(end, std::memory_order_relaxed);
    return false;
  }
  QueueView view;
  if ((queue.generation.load() & 1) == 0 || !look_at(owner, queue, view)) return false;
  const std::uint32_t tail = view.line->tail.load(std::memory_order_acquire);
  const std::uint32_t waiting = std::min(tail - head, view.capacity);
  for (std::uint32_t at = tail - waiting; at != tail; ++at)
    if (waits_for(owner, view.entries[at & (view.capacity - 1)], address, length)) return true;
  return false;
}

}  // namespace

bool is_unsettled(Engine& engine, Peer& owner, std::uint32_t key, std::uint64_t address,
                  std::uint64_t length) noexcept {
  const std::uint32_t mark = owner.segment().region_marks[region_index(key)].load();
  if (mark == 0) [[likely]]
    return false;
  const std::uint32_t end =
      std::min(owner.segment().completion_queues_end.load(), kCompletionQueues);
  for (std::uint32_t index = 0; index < end; ++index) {
    if ((mark & riding_mark(index % kMarkGroups)) == 0) continue;
    SharedCompletionQueue* const queue = owner.completion_queue(index);
    if (queue == nullptr || !holds_payload(owner, *queue, address, length)) continue;
    owner.segment().unsettled.store(1);
    engine.call_attention(owner);
    return true;
  }
  return false;
}

}  // namespace verbatim::engine
