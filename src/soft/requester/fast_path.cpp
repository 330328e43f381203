// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/requester/fast_path.hpp"

#include "soft/faults/hook.hpp"
#include "soft/memory/reach.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// Adds the whole region behind a key, if the access is allowed and the region is mapped here.
void add_range(KnownRanges& ranges, Peer& owner, std::uint32_t key, std::uint32_t domain,
               std::uint32_t access) noexcept {
  const std::uint32_t index = region_index(key);
  if (index >= kRegions) return;
  const SharedRegion& region = owner.region(index);
  const std::uint64_t base = region.base;
  const std::uint64_t length = region.length;
  Location location;
  if (locate_here(owner, {key, domain, access, base, length}, location) &&
      location.direct != nullptr)
    ranges.add(
        {key, base, length, location.direct, length >= kWordBytes ? length - kWordBytes + 1 : 0});
}

}  // namespace

void learn(QueuePair& queue_pair, const ibv_send_wr& request, Visit& visit) noexcept {
  const bool sends = may_send_known(queue_pair, request);
  const bool moves = request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_READ;
  if ((!moves && !sends) || request.num_sge != 1 || queue_pair.raw.qp_type != IBV_QPT_RC) return;
  // Reads the counters first, so that any later change makes them differ.
  const std::uint64_t own = own_changes.load();
  const std::uint64_t peers = queue_pair.route.changes->load();
  if (is_unusual() || queue_pair.context->removed.load() || !visit.enter() || !visit.is_welcome() ||
      queue_pair.route.target->watches.load() == 0)
    return;
  Known& known = queue_pair.known;
  if (known.own_changes != own || known.peer_changes != peers)
    known = {.own_changes = own, .peer_changes = peers, .writes = {}, .reads = {}};
  const bool reads = request.opcode == IBV_WR_RDMA_READ;
  KnownRoute& route = reads ? known.reads : known.writes;
  std::byte* ignored = nullptr;
  const ibv_sge& element = *request.sg_list;
  // The range is already known. The request took the long path for another reason, usually a full
  // queue.
  if (element.length > 0 &&
      (sends ? route.here.find(element.lkey, element.addr, element.length, ignored)
             : route.there.find(request.wr.rdma.rkey, request.wr.rdma.remote_addr, element.length,
                                ignored)))
    return;
  Peer& peer = *queue_pair.route.peer;
  const SharedQueuePair& target = *queue_pair.route.target;
  const std::uint32_t right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const std::uint32_t key = request.wr.rdma.rkey;
  // Memory to which small messages may be on their way has to be checked each time (is_unsettled).
  if (moves && (target.access & right) != 0 && request.sg_list->length > 0 &&
      peer.segment().region_marks[region_index(key)].load() == 0)
    add_range(route.there, peer, key, target.domain, right);
  if ((request.send_flags & IBV_SEND_INLINE) == 0)
    add_range(route.here, *queue_pair.self, request.sg_list->lkey, queue_pair.domain,
              reads ? IBV_ACCESS_LOCAL_WRITE : 0);
}

}  // namespace verbatim::engine
