// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/responder/deliver.hpp"

#include <algorithm>
#include <cstring>

#include "soft/completer/shared_ring.hpp"
#include "soft/memory/copy.hpp"
#include "soft/memory/reach.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint32_t kGrhBytes = 40;

std::uint8_t receive_flags(const ibv_send_wr& request) noexcept {
  return request.opcode == IBV_WR_SEND_WITH_IMM || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
             ? std::uint8_t{IBV_WC_WITH_IMM}
             : std::uint8_t{0};
}

/// After a receive was taken from a shared queue that is running low.
void check_limit(Peer& peer, SharedReceives& receives, std::uint32_t taken) noexcept {
  const std::uint32_t limit = receives.limit.load(std::memory_order_relaxed);
  if (limit == 0 || receives.posted.load() - taken >= limit) return;
  if (receives.limit.exchange(0) == 0) return;  // One event per arming.
  receives.limit_reached.store(1);
  peer.call_attention();
}

/// Copies the message straight into the receive's memory: too big to ride in the ring.
bool place_directly(QueuePair& from, const Destination& to, const ReceiveSlot& slot,
                    const Pieces& pieces, std::uint32_t skip) noexcept {
  std::uint32_t piece = 0;
  std::uint32_t done_of_piece = 0;
  const std::uint32_t count = std::min(slot.count, kMaxElements);  // Others can change it.
  for (std::uint32_t i = 0; i < count && piece < pieces.count; ++i) {
    SharedElement element = slot.elements[i];
    const std::uint32_t skipped = std::min(skip, element.length);
    skip -= skipped;
    element.address += skipped;
    element.length -= skipped;
    Location location;
    if (element.length > 0 && !locate(to.peer,
                                      {element.key, to.target.domain, IBV_ACCESS_LOCAL_WRITE,
                                       element.address, element.length},
                                      location))
      return false;
    while (element.length > 0 && piece < pieces.count) {
      const std::uint32_t size = std::min(element.length, pieces.all[piece].size - done_of_piece);
      if (!write_memory(*from.engine, location, pieces.all[piece].data + done_of_piece, size))
        return false;
      location.address += size;
      if (location.direct != nullptr) location.direct += size;
      element.length -= size;
      done_of_piece += size;
      if (done_of_piece == pieces.all[piece].size) {
        ++piece;
        done_of_piece = 0;
      }
    }
  }
  return true;
}

/// The header that precedes a datagram in its receive buffer.
void write_grh(const QueuePair& from, const ibv_send_wr& request, std::uint64_t payload,
               std::byte* header) noexcept {
  const auto& to = *reinterpret_cast<const AddressHandle*>(request.wr.ud.ah);
  ibv_grh grh{};
  grh.version_tclass_flow = __builtin_bswap32(0x60000000u);
  grh.paylen = __builtin_bswap16(static_cast<std::uint16_t>(payload));
  grh.next_hdr = 0x1b;
  grh.hop_limit = to.attributes.grh.hop_limit;
  grh.sgid = from.context->device->gid;
  grh.dgid = to.attributes.is_global != 0 ? to.attributes.grh.dgid : from.context->device->gid;
  std::memcpy(header, &grh, sizeof grh);
}

/// The header in front of a datagram that was placed directly.
bool place_header(QueuePair& from, const Destination& to, const ibv_send_wr& request,
                  const ReceiveSlot& slot, std::uint64_t payload) noexcept {
  std::byte header[kGrhBytes];
  write_grh(from, request, payload, header);
  Pieces pieces;
  pieces.count = 1;
  pieces.total = kGrhBytes;
  pieces.all[0] = {header, kGrhBytes};
  return place_directly(from, to, slot, pieces, 0);
}

/// Every element of the receive must be memory of the responder's domain that may be written.
bool may_fill(const Destination& to, const ReceiveSlot& slot) noexcept {
  const std::uint32_t count = std::min(slot.count, kMaxElements);
  for (std::uint32_t i = 0; i < count; ++i) {
    const SharedElement element = slot.elements[i];
    Location ignored;
    if (element.length > 0 && !locate_here(to.peer,
                                           {element.key, to.target.domain, IBV_ACCESS_LOCAL_WRITE,
                                            element.address, element.length},
                                           ignored))
      return false;
  }
  return true;
}

void gather(const Pieces& pieces, std::byte* to) noexcept {
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    copy_bytes(to, pieces.all[i].data, pieces.all[i].size);
    to += pieces.all[i].size;
  }
}

/// A completion for the receive, and the receive is gone from the ring.
bool complete_receive(QueuePair& from, const Destination& to, const TakenReceive& taken,
                      RemoteCompletion completion) noexcept {
  completion.queue_pair = index_of(to.target.number);
  completion.slot = taken.number;
  completion.source = from.raw.qp_num;
  // Taken before it is completed: if we are killed in between, its owner flushes it.
  to.receives.taken.store(taken.number + 1, std::memory_order_relaxed);
  check_limit(to.peer, to.receives, taken.number + 1);
  return push_remote(*from.engine, to.peer, to.target.receive_queue, completion);
}

/// The responder's view of a message that does not fit, or whose receive is bad.
Outcome refuse_receive(QueuePair& from, const Destination& to, const TakenReceive& taken,
                       ibv_wc_status theirs, ibv_wc_status ours) noexcept {
  RemoteCompletion failure{};
  failure.status = static_cast<std::uint8_t>(theirs);
  static_cast<void>(complete_receive(from, to, taken, failure));
  if (!to.datagram) break_target(from, theirs);
  return done(ours);
}

/// Delivers a message into the next receive. The caller may take from the ring.
Outcome deliver(QueuePair& from, const Destination& to, const ibv_send_wr& request,
                const Pieces& pieces) noexcept {
  TakenReceive taken;
  switch (take_receive(to.peer.segment(), to.receives, taken)) {
    case Taking::none: return no_receive(from, to);
    case Taking::broken: return not_ready();
    case Taking::taken: break;
  }
  const std::uint32_t header = to.datagram ? kGrhBytes : 0;
  const std::uint64_t size = pieces.total + header;
  if (size > taken.slot->length)
    return refuse_receive(from, to, taken, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
  if (!may_fill(to, *taken.slot))
    return refuse_receive(from, to, taken, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
  RemoteCompletion completion{};
  completion.opcode = IBV_WC_RECV;
  completion.flags = receive_flags(request);
  completion.immediate = request.imm_data;
  completion.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
  completion.byte_count = static_cast<std::uint32_t>(size);
  std::byte small[kEntryPayload];
  if (size <= kEntryPayload) {
    completion.payload = Payload::in_entry;
    if (pieces.count == 1 && !to.datagram) {
      completion.data = {pieces.all[0].data, pieces.all[0].size};
    } else {
      gather(pieces, small);
      completion.data = std::span{small}.first(static_cast<std::size_t>(size));
    }
  } else if (size <= taken.eager_bytes) {
    if (to.datagram) write_grh(from, request, pieces.total, taken.eager);
    gather(pieces, taken.eager + header);
    completion.payload = Payload::in_slot;
  } else {
    if (!place_directly(from, to, *taken.slot, pieces, header) ||
        (to.datagram && !place_header(from, to, request, *taken.slot, pieces.total)))
      return is_dying(to.peer)
                 ? done(IBV_WC_RETRY_EXC_ERR)
                 : refuse_receive(from, to, taken, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
    completion.payload = Payload::placed;
  }
  if (to.datagram) completion.flags |= IBV_WC_GRH;
  if (!complete_receive(from, to, taken, completion)) return done(IBV_WC_REM_OP_ERR);
  return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
}

}  // namespace

void break_target(QueuePair& from, std::uint32_t status) noexcept {
  if (from.raw.qp_type != IBV_QPT_RC) return;  // An unreliable message is dropped, that is all.
  from.target->fault.store(status);
  from.peer->call_attention();
}

SharedReceives* receives_of(Segment& segment, SharedQueuePair& target) noexcept {
  const std::uint32_t shared = target.shared_receives;
  if (shared == 0) return &target.receives;
  return shared <= kSharedQueues ? &segment.shared_receives[shared - 1] : nullptr;
}

Outcome no_receive(QueuePair& from, const Destination& to) noexcept {
  to.receives.starved.store(from.engine->tag());
  return {Verdict::no_receive, IBV_WC_RNR_RETRY_EXC_ERR, 0, to.target.rnr_timer};
}

Outcome deliver_in_turn(QueuePair& from, const Destination& to, const ibv_send_wr& request,
                        const Pieces& pieces) noexcept {
  if (&to.receives == &to.target.receives) return deliver(from, to, request, pieces);
  if (acquire(to.receives.lock, from.engine->tag(), from.engine->peers()) == Acquired::no)
    return not_ready();
  const Outcome outcome = deliver(from, to, request, pieces);
  release(to.receives.lock);
  return outcome;
}

Outcome announce(QueuePair& from, const ibv_send_wr& request, std::uint64_t bytes) noexcept {
  SharedReceives* const receives = receives_of(from.peer->segment(), *from.target);
  if (receives == nullptr) return not_ready();
  const Destination to{*from.peer, *from.target, *receives, false};
  const bool shared = receives != &from.target->receives;
  if (shared && acquire(receives->lock, from.engine->tag(), from.engine->peers()) == Acquired::no)
    return not_ready();
  TakenReceive taken;
  const Taking taking = take_receive(from.peer->segment(), *receives, taken);
  Outcome outcome = not_ready();
  if (taking == Taking::none) outcome = no_receive(from, to);
  if (taking == Taking::taken) {
    RemoteCompletion completion{};
    completion.opcode = static_cast<std::uint8_t>(IBV_WC_RECV_RDMA_WITH_IMM);
    completion.flags = receive_flags(request);
    completion.immediate = request.imm_data;
    completion.byte_count = static_cast<std::uint32_t>(bytes);
    completion.payload = Payload::placed;
    completion.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
    outcome = complete_receive(from, to, taken, completion) ? done(IBV_WC_SUCCESS)
                                                            : done(IBV_WC_REM_OP_ERR);
  }
  if (shared) release(receives->lock);
  return outcome;
}

}  // namespace verbatim::engine
