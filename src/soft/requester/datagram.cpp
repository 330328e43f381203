// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/pieces.hpp"
#include "soft/requester/execute.hpp"
#include "soft/responder/deliver.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {

/// A datagram that cannot be delivered is lost, and that is not an error of the sender's.
Outcome datagram(QueuePair& from, const ibv_send_wr& request) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  const Outcome sent = done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
  const std::uint32_t number = request.wr.ud.remote_qpn;
  Peer* const peer = from.engine->peers().find(slot_of(number));
  if (peer == nullptr) return sent;
  SharedQueuePair& target = peer->segment().queue_pairs[index_of(number)];
  Word& lock = target.receives.lock;
  if (acquire(lock, from.engine->tag(), from.engine->peers()) == Acquired::no) return sent;
  const std::uint32_t state = target.state.load();
  SharedReceives* const receives = receives_of(peer->segment(), target);
  const std::uint32_t key = (request.wr.ud.remote_qkey & 0x80000000u) != 0
                                ? from.attributes.qkey
                                : request.wr.ud.remote_qkey;
  Outcome outcome = sent;
  if (receives != nullptr && (state == IBV_QPS_RTR || state == IBV_QPS_RTS) &&
      target.number == number && target.type == IBV_QPT_UD && target.queue_key == key) {
    outcome = deliver_in_turn(from, {*peer, target, *receives, true}, request, pieces);
  }
  release(lock);
  return outcome.verdict == Verdict::done && outcome.status == IBV_WC_LOC_LEN_ERR ? outcome : sent;
}

}  // namespace verbatim::engine
