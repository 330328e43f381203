// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Raw posts and raw handles: the only way around the library's protection, and easy to grep.
///
/// The caller takes over this contract: until the completion of a request, or of a later signaled
/// request of the same queue, was polled, the request's memory stays alive and is not written
/// (send, write) or not touched at all (receive, read, atomics).
///
/// Hot path: as verbs/detail/encode.hpp says. A full queue is `would_block`.
#include <infiniband/verbs.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/detail/encode.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::unsafe {

/// Whether a request that succeeds has its own completion; one that fails always has.
enum class Signal : std::uint8_t { none = 0, completion = IBV_SEND_SIGNALED };

/// Gives one request to the device. The caller keeps the contract at the top of this file.
template <SendWork Work>
[[nodiscard]] VERBATIM_HOT Result<void> post(QueuePair& queue_pair, const Work& work, WrId id,
                                             Signal signal = Signal::completion) noexcept {
  const detail::PostLimits& limits = detail::Raw::limits(queue_pair);
  // The shape is computed twice so that it is never in memory on the path that is taken.
  if (!detail::accepts(limits, detail::shape(work, work.options), limits.end_of_message))
      [[unlikely]]
    return std::unexpected(detail::refused(limits, detail::shape(work, work.options)));
  // The failure path reads the context again, so that nothing has to survive the call.
  if (const int failed = detail::hand_over(detail::Raw::of(queue_pair), work,
                                           std::to_underlying(id), std::to_underlying(signal)))
      [[unlikely]]
    return std::unexpected(
        detail::post_failed(detail::Raw::of(queue_pair)->context, detail::kPostSend, failed));
  return {};
}

/// Gives the device memory for one message; also before the queue pair is connected.
template <class Queue, std::size_t N>
  requires std::same_as<Queue, QueuePair> || std::same_as<Queue, PreparedQueuePair>
[[nodiscard]] VERBATIM_HOT Result<void> post(Queue& queue_pair, const Receive<N>& work,
                                             WrId id) noexcept {
  if (work.into.size() > queue_pair.limits().max_receive_elements) [[unlikely]]
    return std::unexpected(
        detail::too_many_elements(work.into.size(), queue_pair.limits().max_receive_elements));
  if (const int failed =
          detail::hand_over(detail::Raw::of(queue_pair), work, std::to_underlying(id))) [[unlikely]]
    return std::unexpected(
        detail::post_failed(detail::Raw::of(queue_pair)->context, detail::kPostReceive, failed));
  return {};
}

template <std::size_t N>
[[nodiscard]] VERBATIM_HOT Result<void> post(SharedReceiveQueue& queue, const Receive<N>& work,
                                             WrId id) noexcept {
  if (work.into.size() > queue.max_elements()) [[unlikely]]
    return std::unexpected(detail::too_many_elements(work.into.size(), queue.max_elements()));
  if (const int failed = detail::hand_over(detail::Raw::of(queue), work, std::to_underlying(id)))
      [[unlikely]]
    return std::unexpected(
        detail::post_failed(detail::Raw::of(queue)->context, detail::kPostSharedReceive, failed));
  return {};
}

/// The raw object of a QueuePair, CompletionQueue, SharedReceiveQueue, ProtectionDomain, Context,
/// MemoryRegion or AddressHandle, for vendor extensions and gradual migration. The wrapper still
/// owns it. Do not pass it to a function of libibverbs unless the transport is hardware or
/// kernel_software.
template <class Object>
[[nodiscard]] auto native(const Object& object) noexcept -> decltype(detail::Raw::of(object)) {
  return detail::Raw::of(object);
}
[[nodiscard]] inline LocalKey lkey(const MemoryRegion& region) noexcept {
  return LocalKey{detail::Raw::key(region)};
}

/// ibv_modify_qp after consulting the table of transitions, so that the error names a missing
/// attribute.
[[nodiscard]] inline Result<void> modify(QueuePair& queue_pair, ibv_qp_attr& attributes,
                                         unsigned mask) {
  return detail::Raw::modify(queue_pair, attributes, mask);
}

}  // namespace verbatim::unsafe
