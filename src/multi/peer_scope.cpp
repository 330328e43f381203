// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/multi/peer_scope.hpp"

#include <algorithm>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/scope_share.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/multi/multi_channel.hpp"

namespace verbatim {

using detail::OperationAccess;

PeerScope::PeerScope(MultiChannel& multi) noexcept
    : multi_(multi),
      table_(multi.table_),
      slots_(multi.options_.on.core()->slab.slots()),
      mask_(multi.options_.on.core()->slab.mask()) {
  ++multi.open_scopes_;
}

PeerScope::~PeerScope() {
  finish();
  // If an exception ends the scope, nobody takes the failures.
  if (state_.failed) static_cast<void>(take_failures());
  --multi_.open_scopes_;
}

// ---- Absent peers -------------------------------------------------------------------------------

namespace {

PeerError missing(const detail::PeerTable& table, PeerIndex peer, std::source_location where) {
  const Error error = detail::no_such_peer(table, "post", peer);
  const detail::Ticket ticket =
      detail::gone_channel.park_refusal(error, {detail::SlotState::flying, where});
  return {{error, where, WrId{ticket.id}}, peer};
}

}  // namespace

Operation PeerScope::refuse(PeerIndex peer, std::source_location where) noexcept {
  refused_.push_back(missing(table_, peer, where));
  ++state_.handles;
  return OperationAccess::make(static_cast<std::uint64_t>(refused_.back().id));
}

void PeerScope::fail_detached(PeerIndex peer, std::source_location where) noexcept {
  detached_.push_back(missing(table_, peer, where));
  state_.failed = true;
}

PeerError PeerScope::take_refused(Operation operation) noexcept {
  const auto found = std::ranges::find(refused_, operation.id(), &PeerError::id);
  if (found != refused_.end()) {
    const PeerError taken = *found;
    refused_.erase(found);
    --state_.handles;
    return taken;
  }
  const std::uint64_t id = OperationAccess::id(operation);
  for (const PeerIndex peer : multi_.peers()) {
    const Error error = detail::take_failed(detail::core_of(table_, peer), id);
    if (error != Errc::stale) return {{error, {}, operation.id()}, peer};
  }
  return {{{.code = Errc::stale, .operation = "wait"}, {}, operation.id()}};
}

// ---- Waiting ------------------------------------------------------------------------------------

detail::Slot* PeerScope::slot_of(Operation operation) const noexcept {
  const std::uint64_t id = OperationAccess::id(operation);
  detail::Slot& slot = slots_[id & mask_];
  return slot.id == id ? &slot : nullptr;
}

bool PeerScope::is_over(Operation operation) const noexcept {
  const detail::Slot* const slot = operation.posted() ? slot_of(operation) : nullptr;
  return slot == nullptr || slot->queue->channel->is_settled(*slot);
}

PeerIndex PeerScope::index_of(const detail::ChannelState* channel) const noexcept {
  const auto is_it = [&](const std::unique_ptr<Channel>& each) {
    return each != nullptr && &detail::ChannelAccess::unasked(*each) == channel;
  };
  return static_cast<PeerIndex>(std::ranges::find_if(table_, is_it) - table_.begin());
}

std::expected<Completion, PeerError> PeerScope::take(
    Operation operation, Deadline deadline, std::chrono::steady_clock::time_point& since) noexcept {
  if (!operation.posted()) return std::unexpected(take_refused(operation));
  detail::Slot* const slot = slot_of(operation);
  if (slot == nullptr)
    return std::unexpected(
        PeerError{{{.code = Errc::stale, .operation = "wait"}, {}, operation.id()}});
  const std::uint64_t id = OperationAccess::id(operation);
  detail::ChannelState& channel = *slot->queue->channel;
  const std::source_location where = slot->where;
  const PeerIndex peer = index_of(&channel);
  Completion completion;
  if (!channel.arrived(*slot, id, completion)) {
    detail::Patience patience{channel, deadline, since};
    const bool succeeded = channel.await_for(*slot, id, patience, detail::Memory::borrowed);
    since = patience.start();
    if (!succeeded) {
      --slot->scope->handles;
      return std::unexpected(PeerError{{detail::last_result.error, where, WrId{id}}, peer});
    }
    completion = detail::last_result.completion;
  }
  --slot->scope->handles;
  return completion;
}

Result<Completion> PeerScope::wait(Operation operation, Deadline deadline) noexcept {
  std::chrono::steady_clock::time_point since{};
  const auto taken = take(operation, deadline, since);
  if (!taken) return std::unexpected(Error{taken.error()});
  return *taken;
}

std::optional<Result<Completion>> PeerScope::poll(Operation operation) noexcept {
  if (!is_over(operation)) slot_of(operation)->queue->channel->look_once();
  if (!is_over(operation)) return std::nullopt;
  return wait(operation);
}

Result<std::size_t> PeerScope::wait_any(std::span<const Operation> operations,
                                        Deadline deadline) noexcept {
  if (operations.empty())
    return std::unexpected(
        Error{.code = Errc::invalid_argument, .operation = "wait_any", .field = "operations"});
  auto found = std::ranges::find_if(operations, [&](Operation each) { return is_over(each); });
  if (found == operations.end()) {
    detail::ChannelState& first = *slot_of(operations.front())->queue->channel;
    // Steps the other channels too, because the wait on one channel does not step them.
    const auto one_is_over = [&] {
      found = std::ranges::find_if(operations, [&](Operation each) {
        if (is_over(each)) return true;
        slot_of(each)->queue->channel->step_now();
        return is_over(each);
      });
      return found != operations.end();
    };
    detail::Patience patience{first, deadline};
    if (!first.wait_until(one_is_over, patience))
      return std::unexpected(Error{.code = Errc::timed_out, .operation = "wait_any"});
  }
  return static_cast<std::size_t>(found - operations.begin());
}

BulkResult PeerScope::wait_all(std::span<const Operation> operations, Deadline deadline) noexcept {
  BulkResult outcome;
  std::chrono::steady_clock::time_point since{};
  for (const Operation operation : operations)
    if (const auto taken = take(operation, deadline, since); !taken)
      detail::add_failure(outcome, taken.error());
  return outcome;
}

// ---- The end ------------------------------------------------------------------------------------

void PeerScope::finish() noexcept {
  if (!state_.busy() && !state_.failed) [[likely]]
    return;
  state_.handles -= static_cast<std::uint32_t>(refused_.size());
  state_.failed = state_.failed || !refused_.empty();
  detached_.insert(detached_.end(), refused_.begin(), refused_.end());
  refused_.clear();
  std::chrono::steady_clock::time_point since{};
  for (const std::unique_ptr<Channel>& channel : table_)
    if (channel != nullptr && &detail::ChannelAccess::unasked(*channel) != &detail::gone_channel)
      detail::finish_share(detail::whole(detail::ChannelAccess::unasked(*channel)), state_,
                           Deadline{}, since);
  check(!state_.busy(), "PeerScope: a channel was moved away inside of the scope");
}

std::vector<PeerError> PeerScope::take_failures() noexcept {
  std::vector<PeerError> all = std::exchange(detached_, {});
  for (PeerIndex peer = 0; peer < table_.size(); ++peer) {
    if (table_[peer] == nullptr) continue;
    detail::ChannelCore& channel = detail::core_of(table_, peer);
    if (&channel == &detail::gone_channel) continue;
    for (const ScopeFailure& each : detail::take_failures(channel, state_))
      all.push_back({each, peer});
  }
  return all;
}

}  // namespace verbatim
