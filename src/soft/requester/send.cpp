// SPDX-License-Identifier: MIT OR Apache-2.0
// Sends of connected queue pairs.
#include "soft/requester/collect.hpp"
#include "soft/requester/execute.hpp"

namespace verbatim::engine {

Outcome send(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  if (!visit.enter()) return not_ready();
  visit.touch(0);  // Nothing yet: a small message goes only into the ring.
  return deliver(from.sender(), destination_of(from), request, pieces);
}

}  // namespace verbatim::engine
