// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams, each of which names its destination.
#include "soft/requester/collect.hpp"
#include "soft/requester/execute.hpp"
#include "soft/shared/addresses.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// The header that precedes a datagram in its receive buffer.
ibv_grh header_of(const QueuePair& from, const ibv_ah_attr& to, std::uint64_t payload) noexcept {
  ibv_grh header{};
  header.version_tclass_flow = __builtin_bswap32(0x60000000u);
  header.paylen = __builtin_bswap16(static_cast<std::uint16_t>(payload));
  header.next_hdr = 0x1b;
  header.hop_limit = to.grh.hop_limit;
  header.sgid = from.context->device->gid;
  header.dgid = to.is_global != 0 ? to.grh.dgid : from.context->device->gid;
  return header;
}

bool takes(const SharedQueuePair& target, std::uint32_t number, std::uint32_t device,
           std::uint32_t key) noexcept {
  return Visit::is_open(target) && target.number == number && target.type == IBV_QPT_UD &&
         target.device == device && target.queue_key == key;
}

}  // namespace

Outcome datagram(QueuePair& from, const ibv_send_wr& request) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  const Outcome sent = done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
  const std::uint32_t number = request.wr.ud.remote_qpn;
  const ibv_ah_attr& address = reinterpret_cast<const AddressHandle*>(request.wr.ud.ah)->attributes;
  Engine& engine = *from.engine;
  const PeerRef peer = engine.peers().find(slot_of(number));
  SharedQueuePair* const target = peer ? peer->queue_pair(index_of(number)) : nullptr;
  if (target == nullptr) return sent;
  const TaggedGuard guard{target->receives.lock, engine.tag(), engine.peers(), LockRank::datagrams};
  const std::uint32_t key = (request.wr.ud.remote_qkey & 0x80000000u) != 0
                                ? from.attributes.qkey
                                : request.wr.ud.remote_qkey;
  if (!guard || !takes(*target, number, device_of(address, from.lid == 0), key)) return sent;
  target->receives.touching.store(0);
  const ibv_grh header = header_of(from, address, pieces.total);
  Delivery fresh;
  const Destination to{*peer, *target, fresh, &header};
  if (guard.taken_over()) give_back_of_dead(from.sender(), to);
  // A datagram that cannot be delivered is lost. Only errors that are found before it leaves are
  // reported.
  static_cast<void>(deliver(from.sender(), to, request, pieces));
  give_back(from.sender(), to);
  return sent;
}

}  // namespace verbatim::engine
