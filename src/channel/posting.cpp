// SPDX-License-Identifier: MIT OR Apache-2.0
// Refused posts, and batches.
#include <array>
#include <atomic>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/work_failure.hpp"

namespace verbatim::detail {
namespace {

/// The errors of refused posts of this thread, by the number of the refusal.
struct Refusal {
  std::uint64_t number;
  Error error;
};
constinit thread_local std::array<Refusal, 16> refusals{};
constinit std::atomic<std::uint64_t> refusal_count{0};

/// The largest number of a refusal that fits in a handle's id.
constexpr std::uint64_t kRefusalNumbers = ~std::uint64_t{0} >> kIndexBits;

}  // namespace

constinit ChannelCore gone_channel{};

Ticket ChannelCore::refuse(OperationQueue& queue, Post how) noexcept {
  if (this == &gone_channel)
    contract_violated("Channel: used after it was moved from", 0, 0, how.where);
  ChannelState& state = whole(*this);
  if (!state.cause) state.heed_interrupts();
  if (state.in_child()) return state.park_refusal({.code = Errc::forked, .operation = "post"}, how);
  // That the peer has gone matters more to the caller than that the channel has ended.
  if (state.cause && is_peer_end(*state.cause)) return state.park_refusal(*state.cause, how);
  if (state.cause)
    return state.park_refusal({.code = state.ending.abandoned ? Errc::closed : Errc::broken,
                               .operation = "post",
                               .field = state.cause->operation,
                               .value = static_cast<std::uint64_t>(state.cause->code)},
                              how);
  if (&queue == &sends && state.leave.has_begun())
    return state.park_refusal(
        {.code = Errc::closed, .operation = "post", .field = "after start_close()"}, how);
  if (&queue == &receives && state.inbox != nullptr)
    return state.park_refusal(
        {.code = Errc::unsupported,
         .operation = "post",
         .field = "a receive of its own where receives are shared: receive() takes no memory"},
        how);
  return state.park_refusal({.code = Errc::would_block,
                             .operation = "post",
                             .field = &queue == &sends ? "max_sends" : "max_receives",
                             .value = queue.count,
                             .limit = queue.count},
                            how);
}

Ticket ChannelCore::refuse_send(PostShape shape, Post how) noexcept {
  ChannelState& state = whole(*this);
  if (state.cause || state.interrupted.load() || state.leave.has_begun()) return refuse(sends, how);
  return state.park_refusal(refused(limits, shape), how);
}

Ticket ChannelCore::refuse_receive(std::size_t elements, Post how) noexcept {
  ChannelState& state = whole(*this);
  if (state.cause || state.interrupted.load()) return refuse(receives, how);
  return state.park_refusal(too_many_elements(elements, state.max_receive_elements), how);
}

Ticket ChannelCore::refuse_batch(OperationQueue& queue, std::size_t rest, Post how) noexcept {
  if (this == &gone_channel) return refuse(queue, how);
  ChannelState& state = whole(*this);
  if (rest == 0)
    return state.park_refusal(
        {.code = Errc::invalid_argument, .operation = "post", .field = "works"}, how);
  const std::size_t requests = credit(queue) + rest;
  if (state.cause || state.interrupted.load() || requests <= queue.count) return refuse(queue, how);
  return state.park_refusal({.code = Errc::limit_exceeded,  // It will never fit.
                             .operation = "post",
                             .field = &queue == &sends ? "max_sends" : "max_receives",
                             .value = requests,
                             .limit = queue.count},
                            how);
}

Ticket ChannelCore::device_refused(OperationQueue& queue, Slot& slot, int os_error,
                                   Post how) noexcept {
  call_off(slot);
  slot.state = SlotState::free;
  queue.free = &slot;  // Its `next` has not changed.
  if (how.count != nullptr) --*how.count;
  return whole(*this).park_refusal(
      post_failed(raw->context, &queue == &sends ? kPostSend : kPostReceive, os_error), how);
}

Ticket ChannelCore::park_refusal(const Error& error, Post how) noexcept {
  const std::uint64_t number =
      (refusal_count.fetch_add(1, std::memory_order_relaxed) + 1) & kRefusalNumbers;
  refusals[number % refusals.size()] = {number, error};
  const std::uint64_t id = number << kIndexBits | kRefused | static_cast<std::uint64_t>(error.code);
  if (how.scope != nullptr) {
    ++how.scope->handles;
    whole(*this).ledger.refused.push_back({id, how.scope, {error, how.where, WrId{id}}});
  }
  return {&no_slot, id};
}

Error ChannelCore::refusal(std::uint64_t id) noexcept {
  if (id == kRefused) return {.code = Errc::stale, .operation = "wait"};  // Waited for, or moved.
  const std::uint64_t number = id >> kIndexBits;
  const Refusal& parked = refusals[number % refusals.size()];
  if (parked.number == number) return parked.error;
  return {.code = static_cast<Errc>(id & (kRefused - 1)), .operation = "post"};
}

Ticket ChannelCore::finish_batch(ibv_send_wr& last_request, Slot& first, Slot& last,
                                 Post how) noexcept {
  // Signals at least once in every half of the queue, so that the device can free its places.
  const std::ptrdiff_t every = sends.count / 2 > 0 ? sends.count / 2 : 1;
  const std::ptrdiff_t end = &last_request - batch_requests;
  for (std::ptrdiff_t i = every - 1; i < end; i += every)
    batch_requests[i].send_flags |= IBV_SEND_SIGNALED;
  last_request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* const behind = std::exchange(last_request.next, nullptr);
  last.state = how.state;
  last.scope = how.scope;
  last.where = how.where;
  sends.free = std::exchange(last.next, &first);
  ibv_send_wr* rejected = nullptr;
  const int failed = call(raw, batch_requests, &rejected);
  last_request.next = behind;
  if (failed != 0) [[unlikely]]
    return whole(*this).batch_refused(last, failed, rejected, how);
  if (how.count != nullptr) ++*how.count;
  return {&last, last.id};
}

Ticket ChannelState::batch_refused(Slot& last, int os_error, const ibv_send_wr* rejected,
                                   Post how) noexcept {
  Error error = post_failed(raw->context, kPostSend, os_error);
  Slot* const first = last.next;
  last.state = SlotState::chained;
  if (rejected == batch_requests) {
    for_batch(last, [](Slot& slot) { call_off(slot); });
    last.next = std::exchange(sends.free, first);
    return park_refusal(error, how);
  }
  // The device took a part of the batch, which is unsignaled, or it does not say what it took. Only
  // a flush can end that part. The error is not `would_block`, because trying again would send the
  // part twice.
  error.code = Errc::device_failed;
  error.field = "a batch was taken in part";
  expire(error);
  return park_refusal(error, how);
}

std::pair<std::size_t, Error> ChannelCore::finish_receives(std::size_t count, Post how) noexcept {
  ChannelState& state = whole(*this);
  Slot* const first = receives.free;
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = *receives.free;
    slot.state = how.state;
    slot.scope = how.scope;
    slot.where = how.where;
    receives.free = slot.next;  // `next` stays: the poster finds them by it.
  }
  if (how.count != nullptr) *how.count += static_cast<std::uint32_t>(count);
  ibv_recv_wr* const behind = std::exchange(receive_requests[count - 1].next, nullptr);
  ibv_recv_wr* rejected = nullptr;
  const int failed = call(raw, receive_requests, &rejected);
  receive_requests[count - 1].next = behind;
  if (failed == 0) [[likely]]
    return {count, {}};
  Error error = post_failed(raw->context, kPostReceive, failed);
  if (rejected == nullptr) {
    // The device does not say what it took, so only a flush can tell. Each receive's wait reports
    // it.
    error.code = Errc::device_failed;
    error.field = "receives were taken in part";
    state.expire(error);
    return {count, {}};
  }
  const auto accepted = static_cast<std::size_t>(rejected - receive_requests);
  Slot* slot = first;
  for (std::size_t i = 0; i < count; ++i, slot = slot->next) {
    if (i < accepted) continue;
    if (i == accepted) receives.free = slot;
    call_off(*slot);
    slot->state = SlotState::free;
  }
  if (how.count != nullptr) *how.count -= static_cast<std::uint32_t>(count - accepted);
  return {accepted, error};
}

}  // namespace verbatim::detail
