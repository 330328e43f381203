// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Raw posts and raw handles: the only way around the library's protection, and greppable.
///
/// The contract that the caller takes over: the memory of a request stays alive, is not written
/// (send, write) and not touched at all (receive, read, atomics) until its completion was polled,
/// or that of a later signaled request of the same queue.
///
/// Hot path: no allocation, lock, system call or branch that verbs.h would not have, except the
/// checks of element count, message and inline length, which the device answers with one errno
/// for all. A full queue is `would_block`.
#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/completion.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/work.hpp"

namespace verbatim {

/// What the checks before a post look at. Of constants mostly, so that it folds away.
struct PostShape {
  enum class Kind : std::uint8_t { send, write, read, atomic, datagram };
  Kind kind;
  bool inlined;
  std::size_t elements;
  std::uint64_t bytes;
  std::uint64_t remote_bytes;  ///< What the remote side holds; unlimited for sends.
};

namespace detail {
/// How many elements a kind of work holds by value.
template <class Work>
inline constexpr std::size_t kElements = 1;
template <template <std::size_t> class Work, std::size_t N>
inline constexpr std::size_t kElements<Work<N>> = N;
}  // namespace detail

/// The library's own key to what the public types keep to themselves.
struct UnsafeAccess {
  template <class Element, std::size_t N>
  static ibv_sge* elements(const ElementList<Element, N>& list) noexcept {
    // An element holds nothing but an ibv_sge; the verbs take the list without const, and only
    // read it.
    return const_cast<ibv_sge*>(reinterpret_cast<const ibv_sge*>(list.data()));
  }
  template <class Element, std::size_t N>
  static std::uint64_t bytes(const ElementList<Element, N>& list) noexcept {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < list.size(); ++i) total += list.data()[i].size_bytes();
    return total;
  }

  template <std::size_t N>
  static PostShape shape(const Send<N>& work, const SendOptions& options) noexcept {
    return {PostShape::Kind::send, options.inlined, work.from.size(), bytes(work.from),
            ~std::uint64_t{0}};
  }
  template <std::size_t N>
  static PostShape shape(const Datagram<N>& work, const SendOptions& options) noexcept {
    return {PostShape::Kind::datagram, options.inlined, work.from.size(), bytes(work.from),
            ~std::uint64_t{0}};
  }
  template <std::size_t N>
  static PostShape shape(const Write<N>& work, const SendOptions& options) noexcept {
    return {PostShape::Kind::write, options.inlined, work.from.size(), bytes(work.from),
            work.to.region.length};
  }
  template <std::size_t N>
  static PostShape shape(const Read<N>& work, const ReadOptions&) noexcept {
    return {PostShape::Kind::read, false, work.into.size(), bytes(work.into),
            work.from.region.length};
  }
  static PostShape shape(const CompareSwap& work, const ReadOptions&) noexcept {
    return atomic(work.into);
  }
  static PostShape shape(const FetchAdd& work, const ReadOptions&) noexcept {
    return atomic(work.into);
  }
  template <class Work>
  static PostShape shape(const Work& work) noexcept
    requires requires { shape(work, work.options); }
  {
    return shape(work, work.options);
  }

  // Only the fields that an opcode needs are written: zeroing all 128 bytes of an ibv_send_wr is
  // `rep stosq` with g++, which costs more than the rest of the post. `next` is the caller's. The
  // options are the work's, or equal ones that are known when this is compiled.
  template <std::size_t N>
  static void encode(const Send<N>& work, const SendOptions& options, ibv_send_wr& wr) noexcept {
    encode_outgoing(work.from, options, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, wr);
  }
  template <std::size_t N>
  static void encode(const Datagram<N>& work, const SendOptions& options,
                     ibv_send_wr& wr) noexcept {
    encode_outgoing(work.from, options, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, wr);
    wr.wr.ud.ah = work.to.raw_;
    wr.wr.ud.remote_qpn = std::to_underlying(work.queue_pair);
    wr.wr.ud.remote_qkey = std::to_underlying(work.queue_key);
  }
  template <std::size_t N>
  static void encode(const Write<N>& work, const SendOptions& options, ibv_send_wr& wr) noexcept {
    encode_outgoing(work.from, options, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, wr);
    encode_remote(work.to.region, wr);
  }
  template <std::size_t N>
  static void encode(const Read<N>& work, const ReadOptions& options, ibv_send_wr& wr) noexcept {
    encode_incoming(elements(work.into), work.into.size(), options, IBV_WR_RDMA_READ, wr);
    encode_remote(work.from.region, wr);
  }
  static void encode(const CompareSwap& work, const ReadOptions& options,
                     ibv_send_wr& wr) noexcept {
    encode_atomic(work.into, work.at, options, IBV_WR_ATOMIC_CMP_AND_SWP, wr);
    wr.wr.atomic.compare_add = work.compare;
    wr.wr.atomic.swap = work.swap;
  }
  static void encode(const FetchAdd& work, const ReadOptions& options, ibv_send_wr& wr) noexcept {
    encode_atomic(work.into, work.at, options, IBV_WR_ATOMIC_FETCH_AND_ADD, wr);
    wr.wr.atomic.compare_add = work.add;
    wr.wr.atomic.swap = 0;
  }
  template <class Work>
  static void encode(const Work& work, ibv_send_wr& wr) noexcept
    requires requires { encode(work, work.options, wr); }
  {
    encode(work, work.options, wr);
  }
  template <std::size_t N>
  static void encode(const Receive<N>& work, ibv_recv_wr& wr) noexcept {
    wr.sg_list = elements(work.into);
    wr.num_sge = static_cast<int>(work.into.size());
  }

  /// Points the request at a copy of its element, if it has one: the device then gets no pointer
  /// into the work, which, as a temporary, need not be in memory.
  template <class Work, class Request>
  VERBATIM_HOT static void copy_single(Request& wr, ibv_sge& copy) noexcept {
    if constexpr (detail::kElements<Work> == 1) {
      // By field: as a whole, g++ 12 builds the work in memory to copy it from there.
      copy.addr = wr.sg_list->addr;
      copy.length = wr.sg_list->length;
      copy.lkey = wr.sg_list->lkey;
      wr.sg_list = &copy;
    }
  }

  /// Everything that the device would refuse without saying why. `end_of_message` is
  /// end_of_message(queue_pair), or 0 from who takes no work at all.
  VERBATIM_HOT static bool accepts(const QueuePair& queue_pair, const PostShape& shape,
                                   std::uint64_t end_of_message) noexcept {
    const QueuePairLimits& limits = queue_pair.limits_;
    // Every queue pair takes one element.
    if (shape.elements > 1 && shape.elements > limits.max_send_elements) [[unlikely]]
      return false;
    // Also refuses what has no address where one is needed: the end is 0 there.
    if (shape.kind == PostShape::Kind::datagram ? shape.bytes > limits.max_message_bytes
                                                : shape.bytes >= end_of_message) [[unlikely]]
      return false;
    if (shape.inlined && shape.bytes > limits.max_inline_bytes) [[unlikely]]
      return false;
    if (shape.bytes > shape.remote_bytes) [[unlikely]]
      return false;
    if (shape.kind == PostShape::Kind::read) return queue_pair.reads_;
    if (shape.kind == PostShape::Kind::atomic) return queue_pair.atomics_ && shape.bytes == 8;
    return true;
  }
  /// All messages are shorter.
  static std::uint64_t end_of_message(const QueuePair& queue_pair) noexcept {
    return queue_pair.end_of_message_;
  }
  VERBATIM_COLD static Error refused(const QueuePair& queue_pair, PostShape shape) noexcept;
  VERBATIM_COLD static Error too_many_elements(std::size_t count, std::size_t limit) noexcept;
  VERBATIM_COLD static Error post_failed(const ibv_context* context, const char* operation,
                                         int os_error) noexcept;

  static ibv_qp* raw(const QueuePair& queue_pair) noexcept { return queue_pair.raw_; }
  static ibv_qp* raw(const PreparedQueuePair& prepared) noexcept;
  static ibv_cq* raw(const CompletionQueue& queue) noexcept { return queue.raw_; }
  static ibv_srq* raw(const SharedReceiveQueue& queue) noexcept { return queue.raw_; }
  static ibv_pd* raw(const ProtectionDomain& domain) noexcept;
  static ibv_context* raw(const Context& context) noexcept;
  static ibv_mr* raw(const MemoryRegion& region) noexcept;
  static std::uint32_t key(const MemoryRegion& region) noexcept { return region.key_; }
  static Completion completion(const ibv_wc& polled) noexcept {
    Completion completion;
    completion.wc_ = polled;
    return completion;
  }
  static void set_ok(Completion& completion) noexcept { completion.wc_.status = IBV_WC_SUCCESS; }
  static detail::BufferBlock* block(const Buffer& buffer) noexcept { return buffer.block_; }
  /// An element of the whole buffer, which is not null. Its bounds need no check; that it fits 32
  /// bits does.
  template <class Element>
  VERBATIM_HOT static Element whole(const Buffer& buffer) {
    const detail::BufferBlock& block = *buffer.block_;
    check(block.size <= MemoryRegion::kMaxElement, "Buffer: too long for one element");
    return Element{ibv_sge{reinterpret_cast<std::uintptr_t>(block.data),
                           static_cast<std::uint32_t>(block.size), block.region.key_}};
  }
  /// The elements of any work, for who has to look at their memory.
  template <class Work>
  VERBATIM_HOT static std::span<const ibv_sge> elements_of(const Work& work) noexcept {
    if constexpr (requires { work.into.data(); })
      return {elements(work.into), work.into.size()};
    else if constexpr (requires { work.from.data(); })
      return {elements(work.from), work.from.size()};
    else
      return {&work.into.sge_, 1};
  }
  /// Whether none was given, as with most requests: all of them in one compare.
  VERBATIM_HOT static bool are_plain(const SendOptions& options) noexcept {
    // Behind the value of the immediate: whether there is one, then the four flags.
    static_assert(sizeof(SendOptions) == 12 && offsetof(SendOptions, inlined) == 8);
    const auto from = [](const SendOptions& given) {
      std::uint64_t word;
      std::memcpy(&word, reinterpret_cast<const std::byte*>(&given) + 4, sizeof word);
      return word;
    };
    return from(options) == from(SendOptions{});
  }
  VERBATIM_HOT static bool are_plain(const ReadOptions& options) noexcept {
    return options.signaled && !options.fenced;
  }
  /// Where the first element lies, for the warnings of a compiler: straight from the work, because
  /// g++ -O1 inlines ElementList::data() only after it has looked. Null for a borrowed list.
  template <class Work>
  VERBATIM_HOT static const void* first_memory(const Work& work) noexcept {
    if constexpr (requires { work.into.data(); })
      return first_memory_in(work.into);
    else if constexpr (requires { work.from.data(); })
      return first_memory_in(work.from);
    else
      return reinterpret_cast<const void*>(work.into.sge_.addr);
  }
  /// `event_fd`, an eventfd, becomes readable when an async event has marked an object.
  static void watch_events(const Context& context, int event_fd);
  static void unwatch_events(const Context& context, int event_fd) noexcept;
  static Result<void> modify(QueuePair& queue_pair, ibv_qp_attr& attributes, unsigned mask);

 private:
  static PostShape atomic(const ScatterElement& into) noexcept {
    return {PostShape::Kind::atomic, false, 1, into.size_bytes(), 8};
  }
  template <class Element, std::size_t N>
  VERBATIM_HOT static const void* first_memory_in(const ElementList<Element, N>& list) noexcept {
    if constexpr (N == 0 || N == std::dynamic_extent)
      return nullptr;
    else
      return reinterpret_cast<const void*>(reinterpret_cast<const ibv_sge*>(&list)->addr);
  }
  template <std::size_t N>
  static void encode_outgoing(const ElementList<GatherElement, N>& from, const SendOptions& options,
                              ibv_wr_opcode plain, ibv_wr_opcode with_immediate,
                              ibv_send_wr& wr) noexcept {
    wr.sg_list = elements(from);
    wr.num_sge = static_cast<int>(from.size());
    wr.opcode = options.immediate ? with_immediate : plain;
    wr.send_flags = flags_of(options);
    if (options.immediate) {
      wr.imm_data = std::endian::native == std::endian::little
                        ? __builtin_bswap32(*options.immediate)
                        : *options.immediate;
    }
  }
  static unsigned flags_of(const SendOptions& options) noexcept {
    return (options.signaled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
           (options.inlined ? unsigned{IBV_SEND_INLINE} : 0u) |
           (options.fenced ? unsigned{IBV_SEND_FENCE} : 0u) |
           (options.solicited ? unsigned{IBV_SEND_SOLICITED} : 0u);
  }
  static void encode_incoming(ibv_sge* list, std::size_t count, const ReadOptions& options,
                              ibv_wr_opcode opcode, ibv_send_wr& wr) noexcept {
    wr.sg_list = list;
    wr.num_sge = static_cast<int>(count);
    wr.opcode = opcode;
    wr.send_flags = (options.signaled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
                    (options.fenced ? unsigned{IBV_SEND_FENCE} : 0u);
  }
  static void encode_remote(const RemoteMemoryRegion& region, ibv_send_wr& wr) noexcept {
    wr.wr.rdma.remote_addr = region.address;
    wr.wr.rdma.rkey = std::to_underlying(region.key);
  }
  static void encode_atomic(const ScatterElement& into, const RemoteAtomic& at,
                            const ReadOptions& options, ibv_wr_opcode opcode,
                            ibv_send_wr& wr) noexcept {
    encode_incoming(const_cast<ibv_sge*>(&into.sge_), 1, options, opcode, wr);
    wr.wr.atomic.remote_addr = at.region().address;
    wr.wr.atomic.rkey = std::to_underlying(at.region().key);
  }
};

/// Work that goes through the send queue.
template <class Work>
concept SendWork = requires(const Work& work, ibv_send_wr& wr) {
  { UnsafeAccess::shape(work) } -> std::same_as<PostShape>;
  UnsafeAccess::encode(work, wr);
};

namespace unsafe {

/// Hands one request to the device. The caller keeps the contract at the top of this file.
template <SendWork Work>
[[nodiscard]] VERBATIM_HOT Result<void> post(QueuePair& queue_pair, const Work& work,
                                             WrId id) noexcept {
  // The shape is computed twice so that, on the path that is taken, it is never in memory.
  if (!UnsafeAccess::accepts(queue_pair, UnsafeAccess::shape(work),
                             UnsafeAccess::end_of_message(queue_pair))) [[unlikely]]
    return std::unexpected(UnsafeAccess::refused(queue_pair, UnsafeAccess::shape(work)));
  ibv_send_wr wr;
  ibv_send_wr* rejected;
  UnsafeAccess::encode(work, wr);
  wr.next = nullptr;
  ibv_sge element;
  UnsafeAccess::copy_single<Work>(wr, element);
  wr.wr_id = std::to_underlying(id);
  ibv_qp* const raw = UnsafeAccess::raw(queue_pair);
  // The failure path reads the context anew, so that nothing has to survive the call.
  if (const int failed = raw->context->ops.post_send(raw, &wr, &rejected)) [[unlikely]]
    return std::unexpected(
        UnsafeAccess::post_failed(UnsafeAccess::raw(queue_pair)->context, "ibv_post_send", failed));
  return {};
}

/// Gives the device memory for one message; also before the queue pair is connected.
template <class Queue, std::size_t N>
  requires std::same_as<Queue, QueuePair> || std::same_as<Queue, PreparedQueuePair>
[[nodiscard]] VERBATIM_HOT Result<void> post(Queue& queue_pair, const Receive<N>& work,
                                             WrId id) noexcept {
  if (work.into.size() > queue_pair.limits().max_receive_elements) [[unlikely]]
    return std::unexpected(UnsafeAccess::too_many_elements(
        work.into.size(), queue_pair.limits().max_receive_elements));
  ibv_recv_wr wr;
  ibv_recv_wr* rejected;
  UnsafeAccess::encode(work, wr);
  wr.next = nullptr;
  ibv_sge element;
  UnsafeAccess::copy_single<Receive<N>>(wr, element);
  wr.wr_id = std::to_underlying(id);
  ibv_qp* const raw = UnsafeAccess::raw(queue_pair);
  if (const int failed = raw->context->ops.post_recv(raw, &wr, &rejected)) [[unlikely]]
    return std::unexpected(
        UnsafeAccess::post_failed(UnsafeAccess::raw(queue_pair)->context, "ibv_post_recv", failed));
  return {};
}

template <std::size_t N>
[[nodiscard]] VERBATIM_HOT Result<void> post(SharedReceiveQueue& queue, const Receive<N>& work,
                                             WrId id) noexcept {
  if (work.into.size() > queue.max_elements()) [[unlikely]]
    return std::unexpected(UnsafeAccess::too_many_elements(work.into.size(), queue.max_elements()));
  ibv_recv_wr wr;
  ibv_recv_wr* rejected;
  UnsafeAccess::encode(work, wr);
  wr.next = nullptr;
  ibv_sge element;
  UnsafeAccess::copy_single<Receive<N>>(wr, element);
  wr.wr_id = std::to_underlying(id);
  ibv_srq* const raw = UnsafeAccess::raw(queue);
  if (const int failed = raw->context->ops.post_srq_recv(raw, &wr, &rejected)) [[unlikely]]
    return std::unexpected(
        UnsafeAccess::post_failed(UnsafeAccess::raw(queue)->context, "ibv_post_srq_recv", failed));
  return {};
}

// The raw objects, for vendor extensions and gradual migration. They stay owned by the wrapper;
// never hand them to a function of libibverbs unless the transport is hardware or kernel_software.
[[nodiscard]] inline ibv_qp* native(const QueuePair& x) noexcept { return UnsafeAccess::raw(x); }
[[nodiscard]] inline ibv_cq* native(const CompletionQueue& x) noexcept {
  return UnsafeAccess::raw(x);
}
[[nodiscard]] inline ibv_srq* native(const SharedReceiveQueue& x) noexcept {
  return UnsafeAccess::raw(x);
}
[[nodiscard]] inline ibv_pd* native(const ProtectionDomain& x) noexcept {
  return UnsafeAccess::raw(x);
}
[[nodiscard]] inline ibv_context* native(const Context& x) noexcept { return UnsafeAccess::raw(x); }
[[nodiscard]] inline ibv_mr* native(const MemoryRegion& x) noexcept { return UnsafeAccess::raw(x); }
[[nodiscard]] inline LocalKey lkey(const MemoryRegion& region) noexcept {
  return LocalKey{UnsafeAccess::key(region)};
}

/// ibv_modify_qp after asking the table of transitions, so that a missing attribute is named.
[[nodiscard]] inline Result<void> modify(QueuePair& queue_pair, ibv_qp_attr& attributes,
                                         unsigned mask) {
  return UnsafeAccess::modify(queue_pair, attributes, mask);
}

}  // namespace unsafe
}  // namespace verbatim
