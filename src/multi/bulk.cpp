// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/multi/detail/bulk.hpp"

#include <algorithm>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/scope_share.hpp"

namespace verbatim::detail {

Error no_such_peer(const PeerTable& table, const char* operation, PeerIndex peer) {
  Error error = table.absent ? table.absent(peer)
                             : Error{.code = Errc::not_found, .field = "peer", .value = peer};
  error.operation = operation;
  return error;
}

BulkResult refuse_bulk(const PeerTable& table, const char* operation, PeerIndex peer,
                       std::source_location where) {
  BulkError error;
  error.peers.push_back({{no_such_peer(table, operation, peer), where}, peer});
  return std::unexpected(std::move(error));
}

void look_for(BulkCall& call) noexcept {
  CompletionCore& core = *whole(call.core(0)).core;
  while (core.drain() > 0 && call.scope.busy()) {
  }
}

void await_gathered(BulkCall& call, std::size_t index) noexcept {
  Completion& out = call.out[index];
  const auto id = static_cast<std::uint64_t>(out.id());
  if ((id & kRefused) != 0) return;  // The end of the call reports the reason.
  ChannelState& state = whole(call.core(index));
  Patience patience{state, call.deadline, call.since};
  if (!state.await_for(state.slot(id), id, patience, Memory::borrowed))
    state.ledger.record(call.scope, {last_result.error, call.where, WrId{id}});
  call.since = patience.start();
  out = last_result.completion;
  --call.scope.handles;
}

BulkResult finish_bulk(BulkCall& call) noexcept {
  for (std::size_t i = 0; i < call.list.size(); ++i)
    finish_share(whole(call.core(i)), call.scope, call.deadline, call.since);
  BulkError error;
  for (std::size_t i = 0; i < call.list.size(); ++i) {
    const auto failures = take_failures(call.core(i), call.scope);
    if (!failures.empty()) error.peers.push_back({failures.front(), call.list[i]});
  }
  if (error.peers.empty()) return {};
  return std::unexpected(std::move(error));
}

bool Postponed::has_peer_of(std::size_t index) const noexcept {
  return std::ranges::any_of(
      indices_, [&](std::size_t other) { return call_.list[other] == call_.list[index]; });
}

void Postponed::add_if_full(std::size_t index, Ticket refused) noexcept {
  if (ChannelCore::refusal(refused.id) != Errc::would_block) return;
  static_cast<void>(take_failed(call_.core(index), refused.id));  // The scope no longer counts it.
  add(index);
}

namespace {

/// Takes the results that have come, because a result that was not taken keeps its place in the
/// queue.
void take_gathered(BulkCall& call) noexcept {
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const auto id = static_cast<std::uint64_t>(call.out[i].id());
    ChannelState& state = whole(call.core(i));
    Slot& slot = state.slot(id);
    if (call.out[i].ok() || slot.id != id || slot.state != SlotState::done || !slot.completion.ok())
      continue;
    call.out[i] = slot.completion;
    state.take(slot);
    --call.scope.handles;
  }
}

}  // namespace

/// Steps the other channels too, because the wait on one channel does not step them.
bool Postponed::has_news() noexcept {
  take_gathered(call_);
  return std::ranges::any_of(indices_, [&](std::size_t index) {
    ChannelState& state = whole(call_.core(index));
    state.step_now();
    return (state.*queue_).free != nullptr || state.cause;
  });
}

void Postponed::give_up() noexcept {
  for (const std::size_t index : indices_) {
    ChannelState& state = whole(call_.core(index));
    const Error late = ChannelState::late("wait", state.awaits_receive());
    state.expire(late);
    state.ledger.record(call_.scope, {late, call_.where});
  }
  indices_.clear();
}

std::vector<std::size_t> Postponed::await_room() noexcept {
  if (indices_.empty()) return {};
  ChannelState& first = whole(call_.core(indices_.front()));
  Patience patience{first, call_.deadline, call_.since};
  // Looks at least once. If a slot is free here, the device was the one without room.
  bool has_looked = false;
  const auto is_worth_it = [&] { return std::exchange(has_looked, true) && has_news(); };
  const bool in_time = first.wait_until(is_worth_it, patience);
  call_.since = patience.start();
  if (!in_time) give_up();
  return std::exchange(indices_, {});
}

}  // namespace verbatim::detail
