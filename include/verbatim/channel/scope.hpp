// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Operations on borrowed memory: all of them are over when the scope ends.
///
///     auto outcome = channel.scope([&](Scope& scope) -> Result<void> {
///       auto receiving = scope.post(Receive{region.scatter(reply)});
///       scope.post_detached(Send{region.gather(request)});
///       VERBATIM_TRY(scope.wait(receiving));
///       return {};
///     });
///
/// The scope, not the handle, guarantees the end: whatever the closure does, returns or throws,
/// scope() returns only when the device is done with everything that was posted.
///
/// | closure            | work not waited for     | scope() returns                             |
/// |--------------------|-------------------------|---------------------------------------------|
/// | a value or success | none, or it succeeded   | the value                                   |
/// | a value or success | something failed        | ScopeError with each failed operation       |
/// | an error           | any                     | ScopeError with it and each failed operation |
/// | throws             | any                     | throws, after everything is over            |
///
/// manual_scope() is the same, but leaving an Operation unwaited is a programming error.
///
/// The memory must outlive the scope. A buffer local to the closure does not. If it is on the
/// stack, the post finds it; g++ -O1 -Wall usually warns about it.
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/base/check.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/batch.hpp"
#include "verbatim/channel/detail/closure_frame.hpp"
#include "verbatim/channel/detail/last_result.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/scope_error.hpp"

namespace verbatim {

namespace detail {
class ScopeRun;
class AsyncScopeRun;
struct OperationAccess;

/// What a scope still waits for. A refused post counts as a handle: it is waited for, or it is a
/// failure of the scope.
struct ScopeCount {
  std::uint32_t handles = 0;
  std::uint32_t detached = 0;
};
struct ScopeState : ScopeCount {
  bool failed = false;
  bool is_shared = false;  ///< By several channels, each of which keeps its own failures.
  [[nodiscard]] bool busy() const noexcept {
    return std::bit_cast<std::uint64_t>(static_cast<const ScopeCount&>(*this)) != 0;
  }
};

// What a scope does besides posting (src/channel/scope.cpp).
/// Waits for everything that is left. Keeps failures for take_failures().
void finish_scope(ChannelCore& channel, ScopeState& scope) noexcept;
/// After a detached post was refused: takes completions until a retry makes sense. `since`: when
/// the first look found none, for all tries together. False: the scope has the error.
VERBATIM_COLD bool make_room(ChannelCore& channel, OperationQueue& queue, std::uint64_t refused,
                             ScopeState& scope,
                             std::chrono::steady_clock::time_point& since) noexcept;
/// An operation that the device still has; from now on it is waited for as a handle. Null: none.
VERBATIM_COLD [[nodiscard]] Slot* first_left(ChannelCore& channel, ScopeState& scope) noexcept;
/// Ends the channel, with the proof, if the device still has work of the scope.
VERBATIM_COLD void cancel_scope(ChannelCore& channel, ScopeState& scope) noexcept;
/// The result of an operation that did not succeed; it no longer counts.
VERBATIM_COLD Error take_failed(ChannelCore& channel, std::uint64_t id) noexcept;
VERBATIM_COLD std::vector<ScopeFailure> take_failures(ChannelCore& channel,
                                                      ScopeState& scope) noexcept;
}  // namespace detail

/// A posted operation of a scope. Copyable and small; a stale one is recognised.
class [[nodiscard("wait() for it, or use post_detached()")]] Operation {
 public:
  /// No operation: stale.
  Operation() noexcept : id_(detail::kRefused) {}
  [[nodiscard]] bool posted() const noexcept { return (id_ & detail::kRefused) == 0; }
  /// The id of the request (for a batch, its last), as in its completion. The id of a refused
  /// operation belongs to no request.
  [[nodiscard]] WrId id() const noexcept { return WrId{id_}; }

 private:
  friend class Scope;
  friend struct detail::OperationAccess;
  explicit Operation(std::uint64_t id) noexcept : id_(id) {}
  std::uint64_t id_;
};

class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Gives the work to the device. wait() returns a refusal (`would_block`: the queue is full).
  template <class Work>
  VERBATIM_HOT Operation post(const Work& work,
                              std::source_location where = std::source_location::current()) {
    const void* const memory = detail::first_memory(work);
    frame_.check(work, where);
    const Operation posted{
        channel_.post(work, {detail::SlotState::flying, where, &state_, &state_.handles}).id};
    frame_.show_compiler(memory);
    return posted;
  }
  /// Posts all of it with one doorbell and one signal. There is one handle, whose result is the
  /// first failure. If the queue does not have room for all of it, nothing is posted
  /// (`would_block`; `limit_exceeded` if it never will have).
  template <std::ranges::contiguous_range Works>
    requires SendWork<std::ranges::range_value_t<Works>>
  VERBATIM_HOT Operation post(const Works& all,
                              std::source_location where = std::source_location::current()) {
    using Work = std::ranges::range_value_t<Works>;
    const std::span<const Work> works{all};
    const void* const memory = works.empty() ? nullptr : detail::first_memory(*works.data());
    const detail::Ticket ticket = detail::post_batch(
        channel_, works, {detail::SlotState::batch, where, &state_, &state_.handles},
        [&](const Work& work) { frame_.check(work, where); });
    frame_.show_compiler(memory);
    return Operation{ticket.id};
  }
  /// Receives with one doorbell. Each gets its own message, and so its own handle, in `handles`,
  /// which must have room for all. If the queue does not have room for all, none is posted.
  template <std::ranges::contiguous_range Receives>
    requires detail::ReceiveWork<std::ranges::range_value_t<Receives>>
  void post(const Receives& all, std::span<Operation> handles,
            std::source_location where = std::source_location::current()) {
    using Work = std::ranges::range_value_t<Receives>;
    const std::span<const Work> works{all};
    check(handles.size() >= works.size(), "Scope::post(): too few handles for the receives", where);
    auto handle = handles.begin();
    detail::post_receives(
        channel_, works, {detail::SlotState::flying, where, &state_, &state_.handles},
        [&](const Work& work) { frame_.check(work, where); },
        [&](detail::Ticket ticket) { *handle++ = Operation{ticket.id}; });
  }
  template <detail::ReceiveWork Work, std::size_t Count>
  std::array<Operation, Count> post(const std::array<Work, Count>& all,
                                    std::source_location where = std::source_location::current()) {
    std::array<Operation, Count> handles;
    post(all, handles, where);
    return handles;
  }
  /// For work without a handle: the scope waits for all of it and reports failures. Waits for room
  /// if the queue is full; if handles have all of it, that is a failure (`would_block`) at once,
  /// because a handle keeps its place until its result is taken.
  template <class Work>
  VERBATIM_HOT void post_detached(const Work& work,
                                  std::source_location where = std::source_location::current()) {
    const void* const memory = detail::first_memory(work);
    frame_.check(work, where);
    std::chrono::steady_clock::time_point since{};
    for (;;) {
      const detail::Ticket ticket =
          channel_.post(work, {detail::SlotState::detached, where, &state_, &state_.detached});
      if (!ticket.refused()) [[likely]]
        break;
      if (!detail::make_room(channel_, channel_.*detail::kQueueOf<Work>, ticket.id, state_, since))
        return;
    }
    frame_.show_compiler(memory);
  }

  /// Waits for the operation and takes its result. A second call is `stale`.
  [[nodiscard]] VERBATIM_HOT Result<Completion> wait(Operation operation,
                                                     Deadline deadline = {}) noexcept {
    Completion completion;
    detail::Slot& slot = channel_.slot(operation.id_);
    if (!channel_.arrived(slot, operation.id_, completion)) [[unlikely]] {
      if (!channel_.await(slot, operation.id_, deadline, detail::Memory::borrowed))
        return std::unexpected(detail::take_failed(channel_, operation.id_));
      completion = detail::last_result.completion;
    }
    --slot.scope->handles;  // Perhaps that of an enclosing scope.
    return completion;
  }
  /// The result if there is one; polls the completion queue once.
  [[nodiscard]] std::optional<Result<Completion>> poll(Operation operation) noexcept {
    if (operation.posted() && !channel_.is_ready(channel_.slot(operation.id_), operation.id_))
      return std::nullopt;
    return wait(operation);
  }
  /// Waits for one of them and returns which; take its result with wait(). `timed_out` breaks the
  /// channel, as with any other wait.
  [[nodiscard]] Result<std::size_t> wait_any(std::span<const Operation> operations,
                                             Deadline deadline = {}) noexcept;
  /// Waits for a while, and ends nothing: which of them is over, if any.
  [[nodiscard]] std::optional<std::size_t> any_within(
      Deadline deadline, std::span<const Operation> operations) noexcept;
  /// Waits for all of them, even after one has failed, and returns the first failure.
  [[nodiscard]] Result<void> wait_all(std::span<const Operation> operations,
                                      Deadline deadline = {}) noexcept;

  /// The channel's domain, to register memory in.
  [[nodiscard]] const ProtectionDomain& domain() const noexcept;

 private:
  friend class detail::ScopeRun;
  friend class detail::AsyncScopeRun;
  friend struct detail::OperationAccess;
  using OperationFailure = ScopeFailure;
  explicit Scope(detail::ChannelCore& channel) noexcept : channel_(channel) {
    ++channel.open_scopes;
  }
  ~Scope() {
    finish();
    --channel_.open_scopes;
  }

  void finish() noexcept {
    if (state_.busy()) [[unlikely]]
      detail::finish_scope(channel_, state_);
  }
  [[nodiscard]] std::vector<ScopeFailure> take_failures() noexcept {
    return detail::take_failures(channel_, state_);
  }

  detail::ScopeState state_;  // First: slots point at it.
  detail::ChannelCore& channel_;
  detail::ClosureFrame frame_;
};

}  // namespace verbatim
