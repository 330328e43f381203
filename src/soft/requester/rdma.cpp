// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/access_guard.hpp"
#include "soft/memory/copy.hpp"
#include "soft/memory/pieces.hpp"
#include "soft/memory/reach.hpp"
#include "soft/requester/execute.hpp"
#include "soft/responder/deliver.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// The responder's right to have this done through its queue pair and to its memory.
bool locate_remote(QueuePair& from, const ibv_send_wr& request, std::uint32_t access,
                   std::uint64_t length, Location& location) noexcept {
  if ((from.target->access & access) != access) return false;
  return locate(
      *from.peer,
      {request.wr.rdma.rkey, from.target->domain, access, request.wr.rdma.remote_addr, length},
      location);
}

Outcome remote_access_error(QueuePair& from) noexcept {
  if (is_dying(*from.peer)) return done(IBV_WC_RETRY_EXC_ERR);
  break_target(from, IBV_WC_REM_ACCESS_ERR);
  return done(IBV_WC_REM_ACCESS_ERR);
}

}  // namespace

Outcome write(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, 0, pieces)) return done(status);
  if (!visit.enter()) return not_ready();
  const bool immediate = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  // Without a receive nothing may be written yet: the retry would write twice.
  if (immediate) {
    SharedReceives* const receives = receives_of(from.peer->segment(), *from.target);
    TakenReceive ignored;
    if (receives == nullptr) return not_ready();
    if (take_receive(from.peer->segment(), *receives, ignored) == Taking::none)
      return no_receive(from, {*from.peer, *from.target, *receives, false});
  }
  if (pieces.total > 0) {
    Location location;
    if (!locate_remote(from, request, IBV_ACCESS_REMOTE_WRITE, pieces.total, location))
      return remote_access_error(from);
    for (std::uint32_t i = 0; i < pieces.count; ++i) {
      const auto& piece = pieces.all[i];
      if (!write_memory(*from.engine, location, piece.data, piece.size))
        return remote_access_error(from);
      location.address += piece.size;
      if (location.direct != nullptr) location.direct += piece.size;
    }
  }
  if (immediate) return announce(from, request, pieces.total);
  return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
}

Outcome read(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, IBV_ACCESS_LOCAL_WRITE, pieces))
    return done(status);
  if (!visit.enter()) return not_ready();
  if (pieces.total > 0) {
    Location location;
    if (!locate_remote(from, request, IBV_ACCESS_REMOTE_READ, pieces.total, location))
      return remote_access_error(from);
    for (std::uint32_t i = 0; i < pieces.count; ++i) {
      const auto& piece = pieces.all[i];
      if (!read_memory(*from.engine, location, piece.data, piece.size))
        return remote_access_error(from);
      location.address += piece.size;
      if (location.direct != nullptr) location.direct += piece.size;
    }
  }
  return done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(pieces.total));
}

Outcome atomic(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept {
  Pieces pieces;
  if (const auto status = collect(from, request, IBV_ACCESS_LOCAL_WRITE, pieces))
    return done(status);
  if (pieces.total != sizeof(std::uint64_t)) return done(IBV_WC_LOC_LEN_ERR);
  if (!visit.enter()) return not_ready();
  if (request.wr.atomic.remote_addr % sizeof(std::uint64_t) != 0) {
    break_target(from, IBV_WC_REM_INV_REQ_ERR);
    return done(IBV_WC_REM_INV_REQ_ERR);
  }
  if ((from.target->access & IBV_ACCESS_REMOTE_ATOMIC) == 0) return remote_access_error(from);
  Location location;
  if (!locate(*from.peer,
              {request.wr.atomic.rkey, from.target->domain, IBV_ACCESS_REMOTE_ATOMIC,
               request.wr.atomic.remote_addr, sizeof(std::uint64_t)},
              location))
    return remote_access_error(from);
  const AtomicWork work{request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP, request.wr.atomic.compare_add,
                        request.wr.atomic.swap};
  std::uint64_t old = 0;
  if (!atomic_memory(*from.engine, location, work, old)) return remote_access_error(from);
  const auto* bytes = reinterpret_cast<const std::byte*>(&old);
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    copy_bytes(pieces.all[i].data, bytes, pieces.all[i].size);
    bytes += pieces.all[i].size;
  }
  return done(IBV_WC_SUCCESS, sizeof old);
}

}  // namespace verbatim::engine
