// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes, reads and atomics.
#include "soft/memory/copy.hpp"
#include "soft/memory/reach.hpp"
#include "soft/requester/collect.hpp"
#include "soft/requester/execute.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// The range of the responder's memory that a request names.
struct Remote {
  std::uint32_t key;
  std::uint64_t address;
  std::uint64_t length;
  std::uint32_t access;  ///< What queue pair and region must allow.
};

Outcome refuse(QueuePair& from, ibv_wc_status status) noexcept {
  break_target(from.sender(), *from.route.peer, *from.route.target, status);
  return done(status);
}

Outcome remote_access_error(QueuePair& from) noexcept {
  Peer& peer = *from.route.peer;
  if (!peer.is_alive() || !peer.has_memory()) return done(IBV_WC_RETRY_EXC_ERR);
  return refuse(from, IBV_WC_REM_ACCESS_ERR);
}

Outcome outcome_of(QueuePair& from, Copied copied) noexcept {
  if (copied == Copied::yes) return done(IBV_WC_SUCCESS);
  return copied == Copied::not_now ? not_ready() : remote_access_error(from);
}

/// Finds the range, from inside. If a small message is on its way to it, the result is "not ready".
Outcome find_remote(QueuePair& from, Visit& visit, const Remote& remote,
                    Location& location) noexcept {
  const SharedQueuePair& target = *from.route.target;
  // The rights of the queue pair count even if no byte is moved. Those of the region count only if
  // one is.
  if ((target.access & remote.access) != remote.access) return remote_access_error(from);
  if (remote.length == 0) return done(IBV_WC_SUCCESS);
  if (!visit.may_touch(remote.key)) return not_ready();
  if (!locate(*from.route.peer,
              {remote.key, target.domain, remote.access, remote.address, remote.length}, location))
    return remote_access_error(from);
  if (is_unsettled(*from.engine, *from.route.peer, remote.key, location.address, remote.length))
    return not_ready();
  return done(IBV_WC_SUCCESS);
}

/// Reads and atomics need room for their responses on both sides.
Outcome check_responses(QueuePair& from) noexcept {
  if (from.attributes.max_rd_atomic == 0) return done(IBV_WC_LOC_QP_OP_ERR);
  if (from.route.target->max_responses == 0) return refuse(from, IBV_WC_REM_INV_REQ_ERR);
  return done(IBV_WC_SUCCESS);
}

}  // namespace

Outcome write(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  if (!visit.enter()) return not_ready();
  const bool immediate = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  Location location;
  const Remote remote{request.wr.rdma.rkey, request.wr.rdma.remote_addr, pieces.total,
                      IBV_ACCESS_REMOTE_WRITE};
  if (const Outcome found = find_remote(from, visit, remote, location); !succeeded(found))
    return found;
  const Destination to = destination_of(from);
  if (immediate) {
    const Outcome claimed = claim_receive(from.sender(), to);
    if (!succeeded(claimed)) return claimed;
  }
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    const auto& piece = pieces.all[i];
    if (piece.size == 0) continue;
    const Copied copied = write_memory(*from.engine, location, piece.data, piece.size);
    if (copied != Copied::yes) return outcome_of(from, copied);
    location.advance(piece.size);
  }
  if (immediate) return announce(from.sender(), to, request, pieces.total);
  return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
}

Outcome read(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, IBV_ACCESS_LOCAL_WRITE, pieces))
    return done(status);
  if (!visit.enter()) return not_ready();
  if (const Outcome allowed = check_responses(from); !succeeded(allowed)) return allowed;
  Location location;
  const Remote remote{request.wr.rdma.rkey, request.wr.rdma.remote_addr, pieces.total,
                      IBV_ACCESS_REMOTE_READ};
  if (const Outcome found = find_remote(from, visit, remote, location); !succeeded(found))
    return found;
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    const auto& piece = pieces.all[i];
    if (piece.size == 0) continue;
    const Copied copied = read_memory(*from.engine, location, piece.data, piece.size);
    if (copied != Copied::yes) return outcome_of(from, copied);
    location.advance(piece.size);
  }
  return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
}

Outcome atomic(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, IBV_ACCESS_LOCAL_WRITE, pieces))
    return done(status);
  if (pieces.total != sizeof(std::uint64_t)) return done(IBV_WC_LOC_LEN_ERR);
  if (!visit.enter()) return not_ready();
  if (const Outcome allowed = check_responses(from); !succeeded(allowed)) return allowed;
  if (request.wr.atomic.remote_addr % sizeof(std::uint64_t) != 0)
    return refuse(from, IBV_WC_REM_INV_REQ_ERR);
  Location location;
  const Remote remote{request.wr.atomic.rkey, request.wr.atomic.remote_addr, sizeof(std::uint64_t),
                      IBV_ACCESS_REMOTE_ATOMIC};
  if (const Outcome found = find_remote(from, visit, remote, location); !succeeded(found))
    return found;
  const AtomicWork work{request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP, request.wr.atomic.compare_add,
                        request.wr.atomic.swap};
  std::uint64_t old = 0;
  const Copied copied = atomic_memory(*from.engine, location, work, old);
  if (copied != Copied::yes) return outcome_of(from, copied);
  const auto* bytes = reinterpret_cast<const std::byte*>(&old);
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    copy_bytes(pieces.all[i].data, bytes, pieces.all[i].size);
    bytes += pieces.all[i].size;
  }
  return done(IBV_WC_SUCCESS, sizeof old);
}

}  // namespace verbatim::engine
