// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/access_guard.hpp"
#include "soft/memory/pieces.hpp"
#include "soft/requester/execute.hpp"
#include "soft/responder/deliver.hpp"

namespace verbatim::engine {

Outcome send(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  if (!visit.enter()) return not_ready();
  SharedReceives* const receives = receives_of(from.peer->segment(), *from.target);
  if (receives == nullptr) return not_ready();
  return deliver_in_turn(from, {*from.peer, *from.target, *receives, false}, request, pieces);
}

}  // namespace verbatim::engine
