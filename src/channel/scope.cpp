// SPDX-License-Identifier: MIT OR Apache-2.0
// What scopes wait for and report, and what happens when a buffer dies before its scope.
#include "verbatim/channel/scope.hpp"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/scope_share.hpp"
#include "channel/slot_states.hpp"
#include "channel/work_failure.hpp"

#if VERBATIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace verbatim {
namespace detail {
namespace {

/// Takes the record of a refused post, which then no longer counts. Empty if a wait has already
/// taken it.
std::optional<ScopeLedger::Refused> take_refused(ScopeLedger& ledger, std::uint64_t id) noexcept {
  const auto found = std::ranges::find(ledger.refused, id, &ScopeLedger::Refused::id);
  if (found == ledger.refused.end()) return std::nullopt;
  const ScopeLedger::Refused taken = *found;
  ledger.refused.erase(found);
  --taken.scope->handles;
  return taken;
}

/// Waits for the handles of the scope in this queue. Stops at the last one: the free list is a
/// stack, so busy slots are in front.
void collect(ChannelState& state, OperationQueue& queue, ScopeState& scope) noexcept {
  for (Slot& slot : slots_of(queue)) {
    if (scope.handles == 0) break;
    if (slot.scope != &scope || slot.state <= SlotState::chained) continue;
    const std::source_location where = slot.where;
    const std::uint64_t id = slot.id;
    if (!state.await(slot, id, Deadline{}, Memory::borrowed))
      state.ledger.record(scope, {last_result.error, where, WrId{id}});
    --scope.handles;
  }
}

}  // namespace

void ScopeLedger::record(ScopeState& scope, const ScopeFailure& failure) {
  // An exception may have ended an earlier scope at the same address, and then nobody took its
  // failures.
  if (!std::exchange(scope.failed, true))
    std::erase_if(failed, [&](const Failed& each) { return each.scope == &scope; });
  failed.push_back({&scope, scope.is_shared, failure});
}

namespace {

/// Whether a slot comes back by itself. That of a handle does not until its result is taken, and
/// the thread that would take it is the one that asks.
bool gives_back(const OperationQueue& queue) noexcept {
  return std::ranges::any_of(slots_of(queue), [](const Slot& slot) {
    return slot.state == SlotState::detached || slot.state == SlotState::orphaned;
  });
}

}  // namespace

bool make_room(ChannelCore& channel, OperationQueue& queue, std::uint64_t refused,
               ScopeState& scope, std::chrono::steady_clock::time_point& since) noexcept {
  ChannelState& state = whole(channel);
  const ScopeFailure failure = take_refused(state.ledger, refused)->failure;
  const auto give_up = [&] {  // It was never posted.
    state.ledger.record(scope, failure);
    return false;
  };
  if (failure.code != Errc::would_block) return give_up();
  Patience patience{state, Deadline{}, since};
  bool looked = false;
  // Looks at least once. If a slot is free here, the device was the one without room.
  const auto is_over = [&] {
    return std::exchange(looked, true) &&
           (queue.free != nullptr || state.cause || !gives_back(queue));
  };
  if (!state.wait_until(is_over, patience))
    state.expire(state.late("wait", &queue == &state.sends && state.awaits_receive()));
  since = patience.start();
  return state.cause || queue.free == nullptr ? give_up() : true;
}

namespace {

/// Finishes the handles that the closure left. Refused posts fail the scope; for the others it
/// waits.
void finish_handles(ChannelState& state, ScopeState& scope) noexcept {
  auto& refused = state.ledger.refused;
  for (const ScopeLedger::Refused& each : refused) {
    if (each.scope != &scope) continue;
    state.ledger.record(scope, each.failure);
    --scope.handles;
  }
  std::erase_if(refused, [&](const auto& each) { return each.scope == &scope; });
  collect(state, state.sends, scope);
  collect(state, state.receives, scope);
}

}  // namespace

void finish_scope(ChannelCore& channel, ScopeState& scope) noexcept {
  ChannelState& state = whole(channel);
  // Usually one poll brings all of them, and no Patience is needed.
  if (scope.detached != 0) state.core->drain();
  if (scope.detached != 0) {
    Patience patience{state, Deadline{}};
    if (!state.wait_until([&] { return scope.detached == 0; }, patience))
      state.expire(state.late("wait", state.awaits_receive()));
  }
  if (scope.handles != 0) finish_handles(state, scope);
  // A failure ends the channel even if nobody waited for that operation.
  if (scope.failed && state.is_ending()) state.see_it_end();
}

void finish_share(ChannelState& state, ScopeState& scope, Deadline deadline,
                  std::chrono::steady_clock::time_point& since) noexcept {
  while (Slot* const left = first_left(state, scope)) {
    const std::uint64_t id = left->id;
    const auto is_back = [&] { return left->id != id || !is_in_flight(left->state); };
    Patience patience{state, deadline, since};
    if (!state.wait_until(is_back, patience))
      state.expire(state.late("wait", state.awaits_receive(*left)));
    since = patience.start();
  }
  finish_handles(state, scope);
  if (scope.failed && state.is_ending()) state.see_it_end();
}

Slot* first_left(ChannelCore& channel, ScopeState& scope) noexcept {
  for (Slot& slot : whole(channel).run) {
    if (slot.scope != &scope || !is_in_flight(slot.state)) continue;
    if (slot.state == SlotState::detached) {
      slot.state = SlotState::flying;
      --scope.detached;
      ++scope.handles;
    }
    return &slot;
  }
  return nullptr;
}

bool is_ending(ChannelCore& channel) noexcept { return whole(channel).is_ending(); }

void cancel_scope(ChannelCore& channel, ScopeState& scope) noexcept {
  if (first_left(channel, scope) == nullptr) return;
  whole(channel).expire({.code = Errc::cancelled, .operation = "async_scope"});
}

Error take_failed(ChannelCore& channel, std::uint64_t id) noexcept {
  if ((id & kRefused) != 0) {
    const auto taken = take_refused(whole(channel).ledger, id);
    return taken ? Error{taken->failure} : Error{.code = Errc::stale, .operation = "wait"};
  }
  if (last_result.error.code != Errc::stale) --channel.slot(id).scope->handles;
  return last_result.error;
}

std::vector<ScopeFailure> take_failures(ChannelCore& channel, ScopeState& scope) noexcept {
  std::vector<ScopeLedger::Failed>& failed = whole(channel).ledger.failed;
  std::vector<ScopeFailure> taken;
  // One of several channels may have failed only elsewhere. In that case the failures here are left
  // from an earlier scope.
  const auto is_of_scope = [&](const ScopeLedger::Failed& each) {
    return each.scope == &scope && each.is_shared == scope.is_shared;
  };
  const std::optional<Error>& cause = whole(channel).cause;
  const bool is_peer_gone = cause && is_peer_end(*cause);
  for (const ScopeLedger::Failed& each : failed) {
    if (!is_of_scope(each)) continue;
    taken.push_back(each.failure);
    // The device knows only that nobody answered.
    if (is_peer_gone && each.failure == Errc::work_failed)
      static_cast<Error&>(taken.back()) = *cause;
  }
  std::erase_if(failed, is_of_scope);
  return taken;
}

void ClosureFrame::check_local(std::uint64_t address, std::source_location where) const {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#if VERBATIM_ASAN
  void* const fake = __asan_get_current_fake_stack();
  void* const memory = reinterpret_cast<void*>(address);
  void* const real = __asan_addr_is_in_fake_stack(fake, memory, nullptr, nullptr);
  const std::uintptr_t place = real != nullptr ? reinterpret_cast<std::uintptr_t>(real) : address;
  if (place >= end_ || (real == nullptr && place < here)) return;
#endif
  // A fiber or coroutine runs on another stack. In that case this check can say nothing.
  pthread_attr_t attributes;
  void* bottom = nullptr;
  std::size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  pthread_attr_getstack(&attributes, &bottom, &size);
  pthread_attr_destroy(&attributes);
  const auto low = reinterpret_cast<std::uintptr_t>(bottom);
  const auto inside = [&](std::uintptr_t x) { return x >= low && x - low < size; };
  if (inside(here) && inside(end_))
    contract_violated(
        "Scope: the buffer is local to the scope's closure, and dies before the scope", address,
        end_, where);
}

}  // namespace detail

std::optional<std::size_t> Scope::any_within(Deadline deadline,
                                             std::span<const Operation> operations) noexcept {
  detail::ChannelState& state = detail::whole(channel_);
  detail::Patience patience{state, deadline};
  const auto is_over = [&](const Operation& operation) {
    const detail::Slot& slot = channel_.slot(operation.id_);
    return !operation.posted() || slot.id != operation.id_ || state.is_settled(slot);
  };
  auto found = operations.end();
  const auto one_is_over = [&] {
    found = std::ranges::find_if(operations, is_over);
    return found != operations.end();
  };
  if (operations.empty() || !state.wait_until(one_is_over, patience)) return std::nullopt;
  return static_cast<std::size_t>(found - operations.begin());
}

const ProtectionDomain& Scope::domain() const noexcept { return detail::whole(channel_).domain; }

Result<std::size_t> Scope::wait_any(std::span<const Operation> operations,
                                    Deadline deadline) noexcept {
  if (operations.empty())
    return std::unexpected(
        Error{.code = Errc::invalid_argument, .operation = "wait_any", .field = "operations"});
  if (const auto found = any_within(deadline, operations)) return *found;
  detail::ChannelState& state = detail::whole(channel_);
  const bool for_receive = std::ranges::any_of(operations, [&](const Operation& operation) {
    return state.awaits_receive(state.slot(operation.id_));
  });
  const Error late = state.late("wait_any", for_receive);
  state.expire(late);
  return std::unexpected(late);
}

Result<void> Scope::wait_all(std::span<const Operation> operations, Deadline deadline) noexcept {
  detail::ChannelState& state = detail::whole(channel_);
  detail::Patience patience{state, deadline};
  Result<void> outcome;
  for (const Operation operation : operations) {
    detail::Slot& slot = channel_.slot(operation.id_);
    if (state.await_for(slot, operation.id_, patience, detail::Memory::borrowed))
      --slot.scope->handles;
    else if (const Error error = detail::take_failed(channel_, operation.id_); outcome)
      outcome = std::unexpected(error);
  }
  return outcome;
}

}  // namespace verbatim
