// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/completion_queue.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "verbatim/base/try.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbs/completion_state.hpp"

namespace verbatim {
namespace detail {

CompletionQueueState::CompletionQueueState(std::shared_ptr<CompletionChannelState> on,
                                           Handle<ibv_cq> handle,
                                           CompletionQueueGrowth growth_policy)
    : channel(std::move(on)),
      growth(growth_policy),
      depth(static_cast<std::uint32_t>(handle.get()->cqe)),
      raw(std::move(handle)) {
  // The channel returns this pointer with each event.
  raw.get()->cq_context = this;
  raw.context().events.add(raw.get(), {&marks});
}

CompletionQueueState::~CompletionQueueState() { raw.context().events.remove(raw.get()); }

Result<void> CompletionQueueState::reserve(std::uint32_t entries) {
  const std::lock_guard lock{mutex};
  return reserve_locked(entries);
}

Result<void> CompletionQueueState::reserve_locked(std::uint32_t entries) {
  const std::uint64_t needed = std::uint64_t{reserved} + stale.count() + entries;
  if (needed > depth) {
    if (growth == CompletionQueueGrowth::fixed || needed > UINT32_MAX)
      return std::unexpected(Error{.code = Errc::limit_exceeded,
                                   .operation = "reserve",
                                   .field = "completion queue depth",
                                   .value = needed,
                                   .limit = depth});
    VERBATIM_TRY(grow_locked(static_cast<std::uint32_t>(needed)));
  }
  reserved += entries;
  return {};
}

/// Grows to the next power of two, if the device allows it. A resize moves everything in the queue,
/// so only a few of many queue pairs should cause one. It does not double the depth, because
/// devices round up, too.
Result<void> CompletionQueueState::grow_locked(std::uint32_t needed) {
  const std::uint32_t limit = raw.context().capabilities.max_completion_queue_depth;
  const auto rounded = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::bit_ceil(std::uint64_t{needed}), limit));
  if (rounded > needed && resize_locked(rounded)) return {};
  return resize_locked(needed);
}

void CompletionQueueState::release(std::uint32_t entries, bool used) noexcept {
  const std::lock_guard lock{mutex};
  reserved -= entries;
  // Some drivers leave completions of a destroyed queue pair in the queue until they are polled.
  if (used) stale.add(entries);
}

Result<void> CompletionQueueState::reserve_shared(const void* queue, std::uint32_t entries) {
  const std::lock_guard lock{mutex};
  if (const auto found = shared_users.find(queue); found != shared_users.end()) {
    ++found->second;
    return {};
  }
  VERBATIM_TRY(reserve_locked(entries));
  shared_users.emplace(queue, 1u);
  return {};
}

void CompletionQueueState::release_shared(const void* queue, std::uint32_t entries,
                                          bool used) noexcept {
  {
    const std::lock_guard lock{mutex};
    const auto found = shared_users.find(queue);
    if (found == shared_users.end() || --found->second > 0) return;
    shared_users.erase(found);
  }
  release(entries, used);
}

Result<void> CompletionQueueState::resize(std::uint32_t wanted) {
  VERBATIM_TRY(raw.context().usable("ibv_resize_cq"));
  const std::lock_guard lock{mutex};
  const std::uint64_t needed = std::uint64_t{reserved} + stale.count();
  if (wanted < needed)
    return std::unexpected(Error{.code = Errc::busy,
                                 .operation = "ibv_resize_cq",
                                 .field = "completion queue depth",
                                 .value = wanted,
                                 .limit = needed});
  return resize_locked(wanted);
}

Result<void> CompletionQueueState::resize_locked(std::uint32_t wanted) {
  const std::uint32_t limit = raw.context().capabilities.max_completion_queue_depth;
  if (wanted == 0 || wanted > limit)
    return std::unexpected(
        Error{.code = wanted == 0 ? Errc::invalid_argument : Errc::limit_exceeded,
              .operation = "ibv_resize_cq",
              .field = "completion queue depth",
              .value = wanted,
              .limit = limit});
  if (const int failed = raw.provider().resize_cq(raw.get(), static_cast<int>(wanted))) {
    Error error = os_failure("ibv_resize_cq", os_error_of(failed));
    error.field = "completion queue depth";
    error.value = wanted;
    return std::unexpected(error);
  }
  depth = static_cast<std::uint32_t>(raw.get()->cqe);
  return {};
}

}  // namespace detail

CompletionQueue::CompletionQueue(std::shared_ptr<detail::CompletionQueueState> state) noexcept
    : raw_(state->raw.get()), state_(std::move(state)) {}

Result<std::size_t> CompletionQueue::poll_nothing(detail::CompletionQueueState& state, int count,
                                                  std::span<Completion> out) noexcept {
  // Another thread may have destroyed a queue pair since the poll that found nothing. Only a poll
  // that began after its entries were counted can show that they are gone, so poll once more.
  if (count == 0 && state.stale.count() != 0) {
    const std::uint64_t left = state.stale.left();
    ibv_cq* const raw = state.raw.get();
    count = raw->context->ops.poll_cq(raw, room_in(out), wc(out));
    if (count == 0 && !out.empty()) state.stale.gone(left);  // Without room, nothing was polled.
  }
  if (count >= 0) return static_cast<std::size_t>(count);
  if (state.raw.context().fork.in_child())
    return std::unexpected(Error{.code = Errc::forked, .operation = "ibv_poll_cq"});
  // Drivers return their own codes here (mlx5: -2) and not errno, so the error keeps the number as
  // a value.
  return std::unexpected(Error{.code = Errc::device_failed,
                               .operation = "ibv_poll_cq",
                               .field = "driver code",
                               .value = static_cast<std::uint64_t>(-std::int64_t{count})});
}

Result<void> CompletionQueue::arm(Arm which) noexcept {
  if (!state_->channel)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "ibv_req_notify_cq",
                                 .field = "completion queue without a channel"});
  VERBATIM_TRY(state_->raw.context().usable("ibv_req_notify_cq"));
  const int failed = raw_->context->ops.req_notify_cq(raw_, which == Arm::solicited_only ? 1 : 0);
  if (failed != 0)
    return std::unexpected(os_failure("ibv_req_notify_cq", detail::os_error_of(failed)));
  return {};
}

bool CompletionQueue::take_signal() noexcept { return state_->signal.exchange(false); }

Result<std::size_t> CompletionQueue::wait(std::span<Completion> out,
                                          std::chrono::nanoseconds timeout) {
  const auto deadline = detail::wake_time(timeout);
  for (;;) {
    if (const std::size_t count = VERBATIM_TRY(poll(out)); count > 0) return count;
    VERBATIM_TRY(arm());
    // A completion from before the arming raises no event, so poll again before sleeping.
    if (const std::size_t count = VERBATIM_TRY(poll(out)); count > 0) return count;
    if (!VERBATIM_TRY(state_->channel->sleep(deadline)))
      return std::unexpected(Error{.code = Errc::timed_out, .operation = "CompletionQueue::wait"});
    static_cast<void>(VERBATIM_TRY(state_->channel->drain()));
    static_cast<void>(take_signal());
  }
}

std::uint32_t CompletionQueue::depth() const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->depth;
}
std::uint32_t CompletionQueue::reserved() const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->reserved;
}
Result<void> CompletionQueue::resize(std::uint32_t depth) { return state_->resize(depth); }
EventFlags CompletionQueue::events() const noexcept {
  return EventFlags::from_bits(state_->marks.load());
}

Context CompletionQueue::context() const noexcept { return Context{state_->raw.context_ptr()}; }

std::string to_string(const CompletionQueue& queue) {
  return std::string{detail::name_of_object(queue.raw_).text.data()} + ", depth " +
         std::to_string(queue.depth()) + ", " + std::to_string(queue.reserved()) + " reserved";
}

Result<CompletionQueue> Context::create_completion_queue(
    const CompletionQueueOptions& options) const {
  VERBATIM_TRY(state_->usable("ibv_create_cq"));
  const std::uint32_t depth = options.depth;
  const std::uint32_t limit = capabilities().max_completion_queue_depth;
  if (depth == 0 || depth > limit)
    return std::unexpected(Error{.code = depth == 0 ? Errc::invalid_argument : Errc::limit_exceeded,
                                 .operation = "ibv_create_cq",
                                 .field = "depth",
                                 .value = depth,
                                 .limit = limit});
  const auto vectors = static_cast<std::uint32_t>(std::max(state_->raw->num_comp_vectors, 1));
  if (options.vector >= vectors)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = "ibv_create_cq",
                                 .field = "vector",
                                 .value = options.vector,
                                 .limit = vectors - 1});
  const auto channel = options.channel ? options.channel->state_ : nullptr;
  ibv_cq* const raw = state_->provider.create_cq(state_->raw, static_cast<int>(depth), nullptr,
                                                 channel ? channel->raw.get() : nullptr,
                                                 static_cast<int>(options.vector));
  if (raw == nullptr) {
    Error error = os_failure("ibv_create_cq", errno);
    error.field = "depth";
    error.value = depth;
    return std::unexpected(error);
  }
  return CompletionQueue{std::make_shared<detail::CompletionQueueState>(
      channel, detail::Handle<ibv_cq>{state_, raw, state_->provider.destroy_cq, "ibv_destroy_cq"},
      options.growth)};
}

}  // namespace verbatim
