// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The library's own access to the device objects behind the public types.
///
/// Programs use `unsafe::native()` (verbs/unsafe.hpp), which is easy to grep.
#include <infiniband/verbs.h>

#include <cstdint>

#include "verbatim/base/error.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/memory_region.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::detail {

struct Raw {
  static ibv_qp* of(const QueuePair& queue_pair) noexcept { return queue_pair.raw_; }
  static ibv_qp* of(const PreparedQueuePair& prepared) noexcept;
  static ibv_cq* of(const CompletionQueue& queue) noexcept { return queue.raw_; }
  static ibv_srq* of(const SharedReceiveQueue& queue) noexcept { return queue.raw_; }
  static ibv_ah* of(const AddressHandle& address) noexcept { return address.raw_; }
  static ibv_pd* of(const ProtectionDomain& domain) noexcept;
  static ibv_context* of(const Context& context) noexcept;
  static ibv_mr* of(const MemoryRegion& region) noexcept;
  static std::uint32_t key(const MemoryRegion& region) noexcept { return region.key_; }
  /// The same registration, for only `bytes` of it.
  static MemoryRegion part_of(const MemoryRegion& region,
                              std::span<const std::byte> bytes) noexcept {
    return {region.state_, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(),
            region.access_};
  }
  static Buffer buffer(BufferBlock* block) noexcept {
    return Buffer{block};
  }  ///< Null if moved away.
  static const PostLimits& limits(const QueuePair& queue_pair) noexcept {
    return queue_pair.limits_;
  }

  static Result<void> modify(QueuePair& queue_pair, ibv_qp_attr& attributes, unsigned mask);
  /// All completions of the queue pair were polled, and there will be no more. Its places in the
  /// completion queues are free as soon as it is destroyed.
  static void nothing_left(QueuePair& queue_pair) noexcept;
  /// `event_fd`, an eventfd, becomes readable when an async event has marked an object.
  static void watch_events(const Context& context, int event_fd);
  static void unwatch_events(const Context& context, int event_fd) noexcept;
};

}  // namespace verbatim::detail
