// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/requester/execute.hpp"

#include "soft/requester/collect.hpp"
#include "soft/requester/fast_path.hpp"
#include "soft/requester/route.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

Outcome run(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  switch (request.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return send(from, request, visit);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return write(from, request, visit);
    case IBV_WR_RDMA_READ: return read(from, request, visit);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return atomic(from, request, visit);
    default: return done(IBV_WC_LOC_QP_OP_ERR);
  }
}

/// There is no such queue pair. A reliable connection waits until its retries are over. What an
/// unreliable one sends is lost; only the sender's mistakes are reported.
[[gnu::cold]] Outcome run_without_target(QueuePair& from, const ibv_send_wr& request) noexcept {
  if (from.raw.qp_type == IBV_QPT_RC) return not_ready();
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
}

}  // namespace

Outcome execute(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  if (from.raw.qp_type == IBV_QPT_UD) return datagram(from, request);
  if (from.route.target == nullptr && !aim(from)) [[unlikely]]
    return run_without_target(from, request);
  Outcome outcome = run(from, request, visit);
  // Checks the peer before a success is reported, or a failure is explained.
  const bool told = is_told(from, request) || outcome.verdict != Verdict::done ||
                    outcome.status != IBV_WC_SUCCESS;
  // A copy into the memory of a dead process succeeds. Only the kernel knows that the process is
  // dead.
  if (told && !from.route.peer->seems_alive()) [[unlikely]]
    outcome = done(IBV_WC_RETRY_EXC_ERR);
  if (from.raw.qp_type == IBV_QPT_RC) [[likely]]
    return outcome;
  // An unreliable connection does not report what goes wrong at the peer.
  const bool local = outcome.verdict == Verdict::done && (outcome.status == IBV_WC_LOC_PROT_ERR ||
                                                          outcome.status == IBV_WC_LOC_LEN_ERR ||
                                                          outcome.status == IBV_WC_LOC_QP_OP_ERR);
  return local ? outcome : done(IBV_WC_SUCCESS, outcome.byte_count);
}

}  // namespace verbatim::engine
