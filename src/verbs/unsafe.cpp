// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/unsafe.hpp"

#include <cerrno>

#include "provider/fork_guard.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/queue_pair_object.hpp"

namespace verbatim::detail {
namespace {

Error beyond(const char* field, std::uint64_t value, std::uint64_t limit) noexcept {
  return {.code = Errc::limit_exceeded,
          .operation = kPostSend,
          .field = field,
          .value = value,
          .limit = limit};
}

}  // namespace

Error refused(const PostLimits& limits, PostShape shape) noexcept {
  if (shape.kind != PostShape::Kind::datagram && limits.end_of_message == 0)
    return {.code = Errc::invalid_argument,
            .operation = kPostSend,
            .field = "work without an address on a UD queue pair: use Datagram"};
  if (shape.elements > limits.max_send_elements)
    return beyond("elements", shape.elements, limits.max_send_elements);
  if (shape.kind == PostShape::Kind::atomic && shape.bytes != 8)
    return {.code = Errc::invalid_argument,
            .operation = kPostSend,
            .field = "atomic result bytes",
            .value = shape.bytes,
            .limit = 8};
  if (shape.kind == PostShape::Kind::atomic && !limits.atomics)
    return {.code = Errc::unsupported, .operation = kPostSend, .field = "atomics"};
  if (shape.kind == PostShape::Kind::read && !limits.reads)
    return {.code = Errc::unsupported, .operation = kPostSend, .field = "reads: max_read_atomic"};
  if (shape.bytes > limits.max_message_bytes)
    return beyond("message bytes", shape.bytes, limits.max_message_bytes);
  if (shape.inlined && shape.bytes > limits.max_inline_bytes)
    return beyond("inline bytes", shape.bytes, limits.max_inline_bytes);
  return beyond("bytes beyond the remote region", shape.bytes, shape.remote_bytes);
}

Error too_many_elements(std::size_t count, std::size_t limit) noexcept {
  return {.code = Errc::limit_exceeded,
          .operation = "post",
          .field = "elements",
          .value = count,
          .limit = limit};
}

Error post_failed(const ibv_context* context, const char* operation, int os_error) noexcept {
  if (is_forked(context)) return {.code = Errc::forked, .operation = operation};
  Error error = os_failure(operation, os_error_of(os_error));
  // All other conditions for which a device returns these were checked before, so the queue is
  // full.
  if (error.os_error == ENOMEM || error.os_error == ENOSPC) error.code = Errc::would_block;
  return error;
}

ibv_qp* Raw::of(const PreparedQueuePair& prepared) noexcept { return prepared.state_->raw.get(); }
ibv_pd* Raw::of(const ProtectionDomain& domain) noexcept { return domain.state_->raw.get(); }
ibv_context* Raw::of(const Context& context) noexcept { return context.state_->raw; }
ibv_mr* Raw::of(const MemoryRegion& region) noexcept { return region.state_->raw.get(); }

void Raw::watch_events(const Context& context, int event_fd) {
  context.state_->events.watch(event_fd);
}
void Raw::unwatch_events(const Context& context, int event_fd) noexcept {
  context.state_->events.unwatch(event_fd);
}

Result<void> Raw::modify(QueuePair& queue_pair, ibv_qp_attr& attributes, unsigned mask) {
  const QueuePairState from = VERBATIM_TRY(queue_pair.query_state());
  return queue_pair.state_->modify(attributes, mask, from);
}

void Raw::nothing_left(QueuePair& queue_pair) noexcept {
  queue_pair.state_->reservation.mark_unused();
}

}  // namespace verbatim::detail
