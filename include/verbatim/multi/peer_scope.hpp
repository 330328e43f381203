// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Operations with many peers on borrowed memory: all of them are over when the scope ends.
///
///     auto outcome = multi.scope([&](PeerScope& scope) -> Result<void> {
///       std::array<Operation, 2> handles;
///       VERBATIM_TRY(scope.gather(std::array{PeerWork{0, Receive{a}}, PeerWork{1, Receive{b}}},
///                                 handles));
///       scope.post_detached(0, Send{region.gather(request)});
///       const std::size_t first = VERBATIM_TRY(scope.wait_any(handles, 1s));
///       ...
///     });
///
/// Works as channel/scope.hpp says, with the peer before the work. The scope's error lists failures
/// that nobody waited for, with the peer. Work for one peer keeps its order; there is no order
/// between peers. A late peer ends only its own channel.
#include "verbatim/base/language.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/channel/detail/closure_frame.hpp"
#include "verbatim/channel/detail/scope_run.hpp"
#include "verbatim/channel/scope.hpp"
#include "verbatim/multi/bulk_error.hpp"
#include "verbatim/multi/detail/bulk.hpp"
#include "verbatim/multi/peer.hpp"
#include "verbatim/reactor/async_scope.hpp"

namespace verbatim {

class MultiChannel;

class PeerScope {
 public:
  PeerScope(const PeerScope&) = delete;
  PeerScope& operator=(const PeerScope&) = delete;

  /// Gives the work to the device. wait() returns a refusal (`would_block`: that peer's queue is
  /// full; `not_found`: there is no such peer).
  template <class Work>
  Operation post(PeerIndex peer, const Work& work,
                 std::source_location where = std::source_location::current()) {
    if (!knows(peer)) [[unlikely]]
      return refuse(peer, where);
    return post_known(peer, work, where);
  }
  /// For work without a handle. Waits for room if that peer's queue is full, as in Scope.
  template <class Work>
  void post_detached(PeerIndex peer, const Work& work,
                     std::source_location where = std::source_location::current()) {
    if (!knows(peer)) [[unlikely]]
      return fail_detached(peer, where);
    const void* const memory = detail::first_memory(work);
    frame_.check(work, where);
    detail::ChannelCore& channel = detail::core_of(table_, peer);
    std::chrono::steady_clock::time_point since{};
    for (;;) {
      const detail::Ticket ticket =
          channel.post(work, {detail::SlotState::detached, where, &state_, &state_.detached});
      if (!ticket.refused()) [[likely]]
        break;
      if (!detail::make_room(channel, channel.*detail::kQueueOf<Work>, ticket.id, state_, since))
        return;
    }
    frame_.show_compiler(memory);
  }

  // For several peers, in the order given. `handles` must have room for all of them; each handle is
  // for its own work, as after post(). If the list contains an unknown peer, nothing is posted:
  // `not_found`.
  template <SendWork Work>
    requires(!detail::FillsMemory<Work>)
  [[nodiscard]] Result<void> multicast(
      std::span<const PeerIndex> peers, const Work& work, std::span<Operation> handles,
      std::source_location where = std::source_location::current()) {
    return post_each("multicast", detail::SameWork<Work>{peers, work}, handles, where);
  }
  /// Its own work to each.
  template <std::ranges::contiguous_range Works>
    requires detail::SendWorks<Works>
  [[nodiscard]] Result<void> scatter(const Works& works, std::span<Operation> handles,
                                     std::source_location where = std::source_location::current()) {
    return post_each("scatter", detail::own_work(works), handles, where);
  }
  /// Receive or Read.
  template <std::ranges::contiguous_range Works>
    requires detail::FillWorks<Works>
  [[nodiscard]] Result<void> gather(const Works& works, std::span<Operation> handles,
                                    std::source_location where = std::source_location::current()) {
    return post_each("gather", detail::own_work(works), handles, where);
  }

  /// Waits for the operation and takes its result. A second call is `stale`. `timed_out` ends the
  /// channel of its peer.
  [[nodiscard]] Result<Completion> wait(Operation operation, Deadline deadline = {}) noexcept;
  /// The result if there is one; polls the completion queue once.
  [[nodiscard]] std::optional<Result<Completion>> poll(Operation operation) noexcept;
  /// Waits for one of them and returns which; take its result with wait(). `timed_out` ends
  /// nothing, since any of them may be late. Default: the timeout of the first one's channel.
  [[nodiscard]] Result<std::size_t> wait_any(std::span<const Operation> operations,
                                             Deadline deadline = {}) noexcept;
  /// Waits for all of them, even after one has failed, and names the peers that failed.
  [[nodiscard]] BulkResult wait_all(std::span<const Operation> operations,
                                    Deadline deadline = {}) noexcept;

 private:
  friend class MultiChannel;
  friend class detail::ScopeRun;
  using OperationFailure = PeerError;
  explicit PeerScope(MultiChannel& multi) noexcept;
  ~PeerScope();

  [[nodiscard]] bool knows(PeerIndex peer) const noexcept {
    return detail::has_peer(table_, peer) && detail::core_of(table_, peer).slots == slots_;
  }
  /// For an unknown peer, or one whose channel is on another reactor.
  VERBATIM_COLD [[nodiscard]] Operation refuse(PeerIndex peer, std::source_location where) noexcept;
  VERBATIM_COLD void fail_detached(PeerIndex peer, std::source_location where) noexcept;
  template <class Work>
  Operation post_known(PeerIndex peer, const Work& work, std::source_location where) {
    const void* const memory = detail::first_memory(work);
    frame_.check(work, where);
    const Operation posted = detail::OperationAccess::make(
        detail::core_of(table_, peer)
            .post(work, {detail::SlotState::flying, where, &state_, &state_.handles})
            .id);
    frame_.show_compiler(memory);
    return posted;
  }
  template <class Items>
  Result<void> post_each(const char* operation, const Items& items, std::span<Operation> handles,
                         std::source_location where) {
    check(handles.size() >= items.size(), "PeerScope: too few handles for the work", where);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (!knows(items.peer(i)))
        return std::unexpected(detail::no_such_peer(table_, operation, items.peer(i)));
    for (std::size_t i = 0; i < items.size(); ++i)
      handles[i] = post_known(items.peer(i), items.work(i), where);
    return {};
  }
  /// Null: the operation is over and its result was taken.
  [[nodiscard]] detail::Slot* slot_of(Operation operation) const noexcept;
  [[nodiscard]] bool is_over(Operation operation) const noexcept;
  /// `since`: when the first look found nothing, for all operations that are taken together.
  [[nodiscard]] std::expected<Completion, PeerError> take(
      Operation operation, Deadline deadline,
      std::chrono::steady_clock::time_point& since) noexcept;
  [[nodiscard]] PeerError take_refused(Operation operation) noexcept;
  [[nodiscard]] PeerIndex index_of(const detail::ChannelState* channel) const noexcept;
  void finish() noexcept;
  [[nodiscard]] std::vector<PeerError> take_failures() noexcept;

  detail::ScopeState state_{{}, false, true};  // First: slots point at it.
  MultiChannel& multi_;
  const detail::PeerTable& table_;
  detail::Slot* const slots_;  ///< For all channels of the reactor.
  const std::uint64_t mask_;
  std::vector<PeerError> refused_{};   ///< For unknown peers: handles not waited for.
  std::vector<PeerError> detached_{};  ///< The same for work without a handle.
  detail::ClosureFrame frame_;
};

namespace detail {
template <>
inline constexpr bool kHoldsHandle<PeerScope> = true;
}  // namespace detail

}  // namespace verbatim
