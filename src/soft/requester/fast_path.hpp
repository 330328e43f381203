// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The fast path of a request: one element, written, read or sent, like an earlier request.
///
/// Owns nothing. In the posting thread, under `queue_pair`; the only other lock it tries is
/// `completer`. The hottest code of the engine: `./bench overhead`, case soft.inprocess, counts it.
///
/// It does what the long way does (execute.cpp) in the normal case, using what the queue pair
/// knows. If something is unknown or unusual it does nothing, and the long way finds out.
#include <infiniband/verbs.h>

#include <cstdint>

#include "base/prefetch.hpp"
#include "soft/completer/own_ring.hpp"
#include "soft/memory/copy.hpp"
#include "soft/requester/queue_pair.hpp"
#include "soft/requester/translation_cache.hpp"
#include "soft/responder/deliver_small.hpp"
#include "soft/shared/changes.hpp"

namespace verbatim::engine {

/// Longer copies are separate visits, because a thread that revokes memory waits for the end of
/// one.
inline constexpr std::uint32_t kLongCopy = 64 * 1024;

// By ibv_wr_opcode. Others were refused before.
inline constexpr ibv_wc_opcode kCompletedOpcode[] = {
    IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,     IBV_WC_SEND,
    IBV_WC_RDMA_READ,  IBV_WC_COMP_SWAP,  IBV_WC_FETCH_ADD};
static_assert(IBV_WR_RDMA_WRITE_WITH_IMM == 1 && IBV_WR_SEND_WITH_IMM == 3 &&
              IBV_WR_ATOMIC_FETCH_AND_ADD == 6);

/// Whether a request that succeeds needs a completion.
[[nodiscard, gnu::always_inline]] inline bool is_told(const QueuePair& queue_pair,
                                                      const ibv_send_wr& request) noexcept {
  return ((request.send_flags | queue_pair.signal_all) & IBV_SEND_SIGNALED) != 0;
}

/// In a free place everything else is 0: see OwnCompletion.
[[gnu::always_inline]] inline void fill_send(OwnCompletion& own, QueuePair& queue_pair,
                                             std::uint64_t id, std::uint32_t number,
                                             ibv_wc_opcode opcode, std::uint32_t bytes) noexcept {
  own.wc.wr_id = id;
  own.wc.opcode = opcode;
  own.wc.byte_len = bytes;
  own.wc.qp_num = queue_pair.raw.qp_num;
  own.retired = &queue_pair.retired;
  own.number = number;
}

/// Writes the sender's completion.
inline void push_send(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
                      ibv_wc_status status, std::uint32_t bytes) noexcept {
  push_own(*queue_pair.send_completions, status != IBV_WC_SUCCESS, [&](OwnCompletion& own) {
    fill_send(own, queue_pair, request.wr_id, number, kCompletedOpcode[request.opcode], bytes);
    own.wc.status = status;
    own.is_rare = status != IBV_WC_SUCCESS;
  });
}

enum class Ran : std::uint8_t {
  no,       ///< Nothing was done.
  yes,      ///< Done, and completed if necessary.
  to_tell,  ///< All but its completion: push_send() does the rest.
  to_ask,   ///< Like to_tell, and whether the peer lives is not known yet.
};

/// Short: one word, and then out. A flag, a counter, a pointer: what latency is measured with. It
/// calls nothing, so a post of one saves no registers. Long: any length, and the visit continues.
enum class Road : std::uint8_t { short_one, long_one };

/// Where a known request leads.
struct Ends {
  std::byte* here;
  std::byte* there;
  std::uint32_t key;  ///< That of the remote side.
};

template <ibv_wr_opcode Opcode, Road road>
[[nodiscard, gnu::always_inline]] inline bool find_ends(const QueuePair& queue_pair,
                                                        const ibv_send_wr& request,
                                                        Ends& ends) noexcept {
  constexpr bool kReads = Opcode == IBV_WR_RDMA_READ;
  const KnownRoute& route = kReads ? queue_pair.known.reads : queue_pair.known.writes;
  const ibv_sge& element = *request.sg_list;
  const std::uint32_t key = request.wr.rdma.rkey;
  ends.key = key;
  const std::uint64_t address = request.wr.rdma.remote_addr;
  const std::uint32_t size = element.length;
  if (road == Road::short_one ? size != kWordBytes : size - 1 >= kLongCopy) return false;
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    if (kReads || size > queue_pair.limits.max_inline_data) return false;
    ends.here = reinterpret_cast<std::byte*>(element.addr);
  } else if (!(road == Road::short_one
                   ? route.here.find_word(element.lkey, element.addr, ends.here)
                   : route.here.find(element.lkey, element.addr, size, ends.here))) {
    return false;
  }
  return road == Road::short_one ? route.there.find_word(key, address, ends.there)
                                 : route.there.find(key, address, size, ends.there);
}

/// Runs a write or a read of one element.
template <ibv_wr_opcode Opcode, Road road>
[[nodiscard, gnu::always_inline]] inline Ran run_known(QueuePair& queue_pair,
                                                       const ibv_send_wr& request,
                                                       Visit& visit) noexcept {
  Ends ends;
  // The caller of the short one has checked that there is room.
  if ((road == Road::long_one && queue_pair.posted == queue_pair.full_at) ||
      !find_ends<Opcode, road>(queue_pair, request, ends)) [[unlikely]]
    return Ran::no;
  // Whoever watches the word has its cache line. It comes while the checks go on: a write between
  // two cores of a Xeon that took 146 ns takes 141.
  if constexpr (road == Road::short_one && Opcode == IBV_WR_RDMA_WRITE)
    prefetch_to_write(ends.there);
  const bool told = is_told(queue_pair, request);
  visit.announce(queue_pair.posted, ends.key);
  // After the entry is visible: see access_guard.hpp. And before a success is reported, because a
  // copy into the memory of a dead process succeeds. The short road checks after the copy: latency
  // is measured up to there, and reading the clock takes 25 cycles of it.
  if (queue_pair.route.changes->load(std::memory_order_acquire) != queue_pair.known.peer_changes ||
      (road == Road::long_one && told && !queue_pair.route.peer->was_alive_lately())) [[unlikely]] {
    visit.leave();
    return Ran::no;
  }
  constexpr bool kReads = Opcode == IBV_WR_RDMA_READ;
  std::byte* const to = kReads ? ends.here : ends.there;
  const std::byte* const from = kReads ? ends.there : ends.here;
  std::uint32_t size = kWordBytes;
  if constexpr (road == Road::short_one) {
    publish_word(to, from);
    visit.leave();
  } else {
    size = request.sg_list->length;
    copy_last_word_last(to, from, size);
  }
  const std::uint32_t number = queue_pair.posted++;
  if (!told) return Ran::yes;
  if (road == Road::short_one && !queue_pair.route.is_self) return Ran::to_ask;
  const bool pushed = try_push_own(*queue_pair.send_completions, [&](OwnCompletion& own) {
    fill_send(own, queue_pair, request.wr_id, number, kCompletedOpcode[Opcode], size);
  });
  return pushed ? Ran::yes : Ran::to_tell;
}

/// Whether a request is a send that has a fast path: a small one to another process.
[[nodiscard, gnu::always_inline]] inline bool may_send_known(const QueuePair& queue_pair,
                                                             const ibv_send_wr& request) noexcept {
  return (request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM) &&
         request.num_sge == 1 && request.sg_list->length - 1 < kEntryPayload &&
         !queue_pair.route.is_self;
}

/// Runs such a send.
[[nodiscard, gnu::always_inline]] inline Ran send_known(QueuePair& queue_pair,
                                                        const ibv_send_wr& request,
                                                        Visit& visit) noexcept {
  const ibv_sge& element = *request.sg_list;
  const std::uint32_t size = element.length;
  const Route& route = queue_pair.route;
  if (queue_pair.posted == queue_pair.full_at) [[unlikely]]
    return Ran::no;
  std::byte* data = reinterpret_cast<std::byte*>(element.addr);
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    if (size > queue_pair.limits.max_inline_data) return Ran::no;
  } else if (!queue_pair.known.writes.here.find(element.lkey, element.addr, size, data)) {
    return Ran::no;
  }
  visit.announce(queue_pair.posted, kNoMemory);  // It goes no further than the ring.
  const std::uint64_t changes = route.changes->load(std::memory_order_acquire);
  const bool told = is_told(queue_pair, request);
  if (changes != queue_pair.known.peer_changes || changes != queue_pair.delivery.changes ||
      (told && !route.peer->was_alive_lately()) ||
      !deliver_small(queue_pair.sender(),
                     {*route.peer, *route.target, queue_pair.delivery, nullptr}, request, data,
                     size)) [[unlikely]] {
    visit.leave();
    return Ran::no;
  }
  const std::uint32_t number = queue_pair.posted++;
  if (!told) return Ran::yes;
  const bool pushed = try_push_own(*queue_pair.send_completions, [&](OwnCompletion& own) {
    fill_send(own, queue_pair, request.wr_id, number, IBV_WC_SEND, size);
  });
  return pushed ? Ran::yes : Ran::to_tell;
}

/// Whether what the queue pair knows is still valid, and covers the request.
[[nodiscard, gnu::always_inline]] inline bool is_known(const QueuePair& queue_pair,
                                                       const ibv_send_wr& request) noexcept {
  return queue_pair.known.own_changes == own_changes.load(std::memory_order_acquire) &&
         request.num_sge == 1;
}

/// Runs the request, if everything about it is known. The queue pair's lock is held.
template <Road road>
[[nodiscard, gnu::always_inline]] inline Ran run_at_once(QueuePair& queue_pair,
                                                         const ibv_send_wr& request,
                                                         Visit& visit) noexcept {
  // The opcode first: a send, which has no short road, leaves at once.
  if (request.opcode == IBV_WR_RDMA_WRITE) [[likely]]
    return is_known(queue_pair, request)
               ? run_known<IBV_WR_RDMA_WRITE, road>(queue_pair, request, visit)
               : Ran::no;
  if (request.opcode == IBV_WR_RDMA_READ && is_known(queue_pair, request))
    return run_known<IBV_WR_RDMA_READ, road>(queue_pair, request, visit);
  if constexpr (road == Road::long_one) {
    if (may_send_known(queue_pair, request) && is_known(queue_pair, request))
      return send_known(queue_pair, request, visit);
  }
  return Ran::no;
}

/// After a success the long way: keeps what was found out, if it can serve the next request.
void learn(QueuePair& queue_pair, const ibv_send_wr& request, Visit& visit) noexcept;

}  // namespace verbatim::engine
