// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/requester/route.hpp"

#include "soft/shared/addresses.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {

bool aim(QueuePair& queue_pair) noexcept {
  const std::uint32_t number = queue_pair.attributes.dest_qp_num;
  Engine& engine = *queue_pair.engine;
  Route& route = queue_pair.route;
  queue_pair.peer = engine.peers().find(slot_of(number));
  Peer* const peer = queue_pair.peer.get();
  queue_pair.delivery.forget();
  route.peer = peer;
  route.is_self = peer != nullptr && peer->is_self();
  route.number = number;
  route.own_number = queue_pair.raw.qp_num;
  route.type = queue_pair.raw.qp_type;
  route.device = device_of(queue_pair.attributes.ah_attr, queue_pair.lid == 0);
  route.target = peer != nullptr ? peer->queue_pair(index_of(number)) : nullptr;
  route.is_plain = peer != nullptr && engine.own().is_ordered() && peer->segment().is_ordered == 1;
  route.changes = peer != nullptr ? &peer->segment().changes : nullptr;
  queue_pair.shared->peer.store(number);
  queue_pair.shared->watches.store(peer != nullptr ? 1 : 0);
  // From now on a peer may need us while the program sleeps.
  if (peer != nullptr && !peer->is_self()) engine.start_helper();
  return route.target != nullptr;
}

}  // namespace verbatim::engine
