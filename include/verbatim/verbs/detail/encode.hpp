// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file From work to what the device takes: the checks before a post, the request, the call.
///
/// Hot path: no allocation, lock, system call or branch beyond those of verbs.h, except the checks
/// of element count, message length and inline length, for which the device has only one errno.
/// Figures are instructions per post, g++ / clang, from `./bench overhead`.
#include <infiniband/verbs.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/verbs/detail/access.hpp"
#include "verbatim/verbs/work.hpp"

namespace verbatim {
namespace detail {

/// What the checks before a post look at. Mostly constants, so that it folds away.
struct PostShape {
  enum class Kind : std::uint8_t { send, write, read, atomic, datagram };
  Kind kind;
  bool inlined;
  std::size_t elements;
  std::uint64_t bytes;
  std::uint64_t remote_bytes;  ///< The size of the remote memory; unlimited for sends.
};

/// How many elements a kind of work holds by value.
template <class Work>
inline constexpr std::size_t kElements = 1;
template <template <std::size_t> class Work, std::size_t N>
inline constexpr std::size_t kElements<Work<N>> = N;

// An element is just an ibv_sge. The verbs take the list as non-const, but only read it.
template <class Element, std::size_t N>
VERBATIM_HOT ibv_sge* list_of(const ElementList<Element, N>& list) noexcept {
  return const_cast<ibv_sge*>(reinterpret_cast<const ibv_sge*>(list.data()));
}
VERBATIM_HOT ibv_sge* list_of(const ScatterElement& element) noexcept {
  return const_cast<ibv_sge*>(reinterpret_cast<const ibv_sge*>(&element));
}

/// The elements of any work, for code that looks at their memory.
template <class Work>
VERBATIM_HOT std::span<const ibv_sge> elements_of(const Work& work) noexcept {
  if constexpr (requires { work.into.data(); })
    return {list_of(work.into), work.into.size()};
  else if constexpr (requires { work.from.data(); })
    return {list_of(work.from), work.from.size()};
  else
    return {list_of(work.into), 1};
}

template <class Element, std::size_t N>
VERBATIM_HOT PostShape shape_of(PostShape::Kind kind, const ElementList<Element, N>& list,
                                bool inlined, std::uint64_t remote_bytes) noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) bytes += list.data()[i].size_bytes();
  return {kind, inlined, list.size(), bytes, remote_bytes};
}
template <std::size_t N>
VERBATIM_HOT PostShape shape(const Send<N>& work, const SendOptions& options) noexcept {
  return shape_of(PostShape::Kind::send, work.from, options.inlined, ~std::uint64_t{0});
}
template <std::size_t N>
VERBATIM_HOT PostShape shape(const Datagram<N>& work, const SendOptions& options) noexcept {
  return shape_of(PostShape::Kind::datagram, work.from, options.inlined, ~std::uint64_t{0});
}
template <std::size_t N>
VERBATIM_HOT PostShape shape(const Write<N>& work, const SendOptions& options) noexcept {
  return shape_of(PostShape::Kind::write, work.from, options.inlined, work.to.region.length);
}
template <std::size_t N>
VERBATIM_HOT PostShape shape(const Read<N>& work, const ReadOptions&) noexcept {
  return shape_of(PostShape::Kind::read, work.into, false, work.from.region.length);
}
template <class Work>
  requires std::same_as<Work, CompareSwap> || std::same_as<Work, FetchAdd>
VERBATIM_HOT PostShape shape(const Work& work, const ReadOptions&) noexcept {
  return {PostShape::Kind::atomic, false, 1, work.into.size_bytes(), 8};
}

/// Checks what the device refuses without a reason. `end_of_message`: the limit, or 0 for none.
VERBATIM_HOT bool accepts(const PostLimits& limits, const PostShape& shape,
                          std::uint32_t end_of_message) noexcept {
  // Every queue pair takes one element.
  if (shape.elements > 1 && shape.elements > limits.max_send_elements) [[unlikely]]
    return false;
  // Also refuses a message without an address if one is needed: the end is 0 then.
  if (shape.kind == PostShape::Kind::datagram ? shape.bytes > limits.max_message_bytes
                                              : shape.bytes >= end_of_message) [[unlikely]]
    return false;
  if (shape.inlined && shape.bytes > limits.max_inline_bytes) [[unlikely]]
    return false;
  if (shape.bytes > shape.remote_bytes) [[unlikely]]
    return false;
  if (shape.kind == PostShape::Kind::read) return limits.reads;
  if (shape.kind == PostShape::Kind::atomic) return limits.atomics && shape.bytes == 8;
  return true;
}
VERBATIM_COLD Error refused(const PostLimits& limits, PostShape shape) noexcept;
VERBATIM_COLD Error too_many_elements(std::size_t count, std::size_t limit) noexcept;
VERBATIM_COLD Error post_failed(const ibv_context* context, const char* operation,
                                int os_error) noexcept;

// ---- Requests -----------------------------------------------------------------------------------

// Only the fields that an opcode needs are written. Zeroing all 128 bytes of an ibv_send_wr costs
// 18 / 8, and with g++, which uses `rep stosq`, more time than the rest of the post. The caller
// sets `next`. The options are those of the work, or equal ones that are known at compile time.
template <std::size_t N>
VERBATIM_HOT void encode_outgoing(const ElementList<GatherElement, N>& from,
                                  const SendOptions& options, unsigned signal, ibv_wr_opcode plain,
                                  ibv_wr_opcode with_immediate, ibv_send_wr& wr) noexcept {
  wr.sg_list = list_of(from);
  wr.num_sge = static_cast<int>(from.size());
  wr.opcode = options.immediate ? with_immediate : plain;
  wr.send_flags = signal | (options.inlined ? unsigned{IBV_SEND_INLINE} : 0u) |
                  (options.fenced ? unsigned{IBV_SEND_FENCE} : 0u) |
                  (options.solicited ? unsigned{IBV_SEND_SOLICITED} : 0u);
  if (options.immediate)
    wr.imm_data = std::endian::native == std::endian::little ? __builtin_bswap32(*options.immediate)
                                                             : *options.immediate;
}
VERBATIM_HOT void encode_incoming(ibv_sge* list, std::size_t count, const ReadOptions& options,
                                  unsigned signal, ibv_wr_opcode opcode, ibv_send_wr& wr) noexcept {
  wr.sg_list = list;
  wr.num_sge = static_cast<int>(count);
  wr.opcode = opcode;
  wr.send_flags = signal | (options.fenced ? unsigned{IBV_SEND_FENCE} : 0u);
}
VERBATIM_HOT void encode_remote(const RemoteMemoryRegion& region, ibv_send_wr& wr) noexcept {
  wr.wr.rdma.remote_addr = region.address;
  wr.wr.rdma.rkey = std::to_underlying(region.key);
}
template <class Work>
VERBATIM_HOT void encode_atomic(const Work& work, const ReadOptions& options, unsigned signal,
                                ibv_wr_opcode opcode, ibv_send_wr& wr) noexcept {
  encode_incoming(list_of(work.into), 1, options, signal, opcode, wr);
  wr.wr.atomic.remote_addr = work.at.region().address;
  wr.wr.atomic.rkey = std::to_underlying(work.at.region().key);
}

template <std::size_t N>
VERBATIM_HOT void encode(const Send<N>& work, const SendOptions& options, unsigned signal,
                         ibv_send_wr& wr) noexcept {
  encode_outgoing(work.from, options, signal, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, wr);
}
template <std::size_t N>
VERBATIM_HOT void encode(const Datagram<N>& work, const SendOptions& options, unsigned signal,
                         ibv_send_wr& wr) noexcept {
  encode_outgoing(work.from, options, signal, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, wr);
  wr.wr.ud.ah = Raw::of(work.to);
  wr.wr.ud.remote_qpn = std::to_underlying(work.queue_pair);
  wr.wr.ud.remote_qkey = std::to_underlying(work.queue_key);
}
template <std::size_t N>
VERBATIM_HOT void encode(const Write<N>& work, const SendOptions& options, unsigned signal,
                         ibv_send_wr& wr) noexcept {
  encode_outgoing(work.from, options, signal, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, wr);
  encode_remote(work.to.region, wr);
}
template <std::size_t N>
VERBATIM_HOT void encode(const Read<N>& work, const ReadOptions& options, unsigned signal,
                         ibv_send_wr& wr) noexcept {
  encode_incoming(list_of(work.into), work.into.size(), options, signal, IBV_WR_RDMA_READ, wr);
  encode_remote(work.from.region, wr);
}
VERBATIM_HOT void encode(const CompareSwap& work, const ReadOptions& options, unsigned signal,
                         ibv_send_wr& wr) noexcept {
  encode_atomic(work, options, signal, IBV_WR_ATOMIC_CMP_AND_SWP, wr);
  wr.wr.atomic.compare_add = work.compare;
  wr.wr.atomic.swap = work.swap;
}
VERBATIM_HOT void encode(const FetchAdd& work, const ReadOptions& options, unsigned signal,
                         ibv_send_wr& wr) noexcept {
  encode_atomic(work, options, signal, IBV_WR_ATOMIC_FETCH_AND_ADD, wr);
  wr.wr.atomic.compare_add = work.add;
  wr.wr.atomic.swap = 0;
}

}  // namespace detail

/// Work that goes through the send queue.
template <class Work>
concept SendWork = requires(const Work& work, ibv_send_wr& wr) {
  { detail::shape(work, work.options) } -> std::same_as<detail::PostShape>;
  detail::encode(work, work.options, 0u, wr);
};

namespace detail {

template <SendWork Work>
VERBATIM_HOT void encode_into(ibv_send_wr& wr, const Work& work, unsigned signal) noexcept {
  encode(work, work.options, signal, wr);
}
template <std::size_t N>
VERBATIM_HOT void encode_into(ibv_recv_wr& wr, const Receive<N>& work, unsigned) noexcept {
  wr.sg_list = list_of(work.into);
  wr.num_sge = static_cast<int>(work.into.size());
}

// The seam.
VERBATIM_HOT int call(ibv_qp* queue, ibv_send_wr* wr, ibv_send_wr** rejected) noexcept {
  return queue->context->ops.post_send(queue, wr, rejected);
}
VERBATIM_HOT int call(ibv_qp* queue, ibv_recv_wr* wr, ibv_recv_wr** rejected) noexcept {
  return queue->context->ops.post_recv(queue, wr, rejected);
}
VERBATIM_HOT int call(ibv_srq* queue, ibv_recv_wr* wr, ibv_recv_wr** rejected) noexcept {
  return queue->context->ops.post_srq_recv(queue, wr, rejected);
}
inline constexpr auto kPostSend = "ibv_post_send";
inline constexpr auto kPostReceive = "ibv_post_recv";
inline constexpr auto kPostSharedReceive = "ibv_post_srq_recv";

/// Gives one request to the device; returns its errno.
template <class Work, class Queue>
VERBATIM_HOT int hand_over(Queue* queue, const Work& work, std::uint64_t id,
                           unsigned signal = IBV_SEND_SIGNALED) noexcept {
  using Request = std::conditional_t<SendWork<Work>, ibv_send_wr, ibv_recv_wr>;
  Request wr;
  Request* rejected;
  encode_into(wr, work, signal);
  wr.next = nullptr;
  ibv_sge element;
  if constexpr (kElements<Work> == 1) {
    // A copy: the device gets no pointer into the work, so a temporary need not be in memory. Field
    // by field: otherwise g++ 12 builds the work in memory and copies it from there.
    element.addr = wr.sg_list->addr;
    element.length = wr.sg_list->length;
    // Volatile, or g++ 12 makes a vector of the last two fields to store them at once: +2.
    const_cast<volatile std::uint32_t&>(element.lkey) = wr.sg_list->lkey;
    wr.sg_list = &element;
  }
  wr.wr_id = id;
  return call(queue, &wr, &rejected);
}

}  // namespace detail
}  // namespace verbatim
