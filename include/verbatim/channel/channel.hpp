// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A connection between two peers whose operations keep their buffers until they are over.
///
///     PreparedChannel::create(domain) -> exchange endpoint() -> connect(peer) -> Channel
///
/// There are three ways to use it, at the same cost: blocking calls (`send(region.gather(x))`),
/// owned operations (`send(std::move(buffer))`, see owned_operations.hpp), and scopes for many
/// operations on borrowed memory (scope.hpp).
///
/// Nothing waits for ever. When a wait runs out of time the channel ends: it stops its queue pair
/// and gets everything outstanding back. Only then does the call return, so nothing can be written
/// to the buffer any more. A single operation cannot be cancelled. A channel that ended says why
/// (`cause()`), and `recycle()` reconnects it.
///
/// Ownership: move-only. The destructor waits for the device, bounded; see close().
/// Threads:   one at a time; it may move between threads. canceller() works from any thread.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "verbatim/channel/canceller.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/last_result.hpp"
#include "verbatim/channel/detail/scope_run.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/incoming.hpp"
#include "verbatim/channel/owned_operations.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/channel/scope.hpp"
#include "verbatim/verbs/elements.hpp"

namespace verbatim {

class PreparedChannel;

namespace detail {
struct ChannelAccess;
struct Rendezvous;
}  // namespace detail
namespace unsafe {
class PendingWork;
}

/// The result of Channel::ready_record(): a fixed number of bytes, for any carrier.
using ReadyRecord = std::array<std::byte, 24>;

class Channel : public OwnedOperations {
 public:
  // Blocking: one operation and its result. Takes one element or several: an array, an ElementList,
  // any contiguous range.
  template <detail::GatherElements From>
  [[nodiscard]] VERBATIM_HOT Result<Completion> send(
      From&& from, SendOptions options = {}, Deadline deadline = {},
      std::source_location where = std::source_location::current()) noexcept {
    return run(Send{detail::list_from<GatherElement>(std::forward<From>(from)), options}, deadline,
               where);
  }
  template <detail::ScatterElements Into>
  [[nodiscard]] Result<Completion> receive(
      Into&& into, Deadline deadline = {},
      std::source_location where = std::source_location::current()) noexcept {
    return run(Receive{detail::list_from<ScatterElement>(std::forward<Into>(into))}, deadline,
               where);
  }
  template <detail::GatherElements From>
  [[nodiscard]] Result<Completion> write(
      From&& from, WriteTarget to, WriteOptions options = {}, Deadline deadline = {},
      std::source_location where = std::source_location::current()) noexcept {
    return run(Write{detail::list_from<GatherElement>(std::forward<From>(from)), to, options},
               deadline, where);
  }
  template <detail::ScatterElements Into>
  [[nodiscard]] Result<Completion> read(
      Into&& into, ReadSource from, ReadOptions options = {}, Deadline deadline = {},
      std::source_location where = std::source_location::current()) noexcept {
    return run(Read{detail::list_from<ScatterElement>(std::forward<Into>(into)), from, options},
               deadline, where);
  }
  /// Returns the old value.
  [[nodiscard]] Result<std::uint64_t> fetch_add(RemoteAtomic at, std::uint64_t add,
                                                Deadline deadline = {});
  /// Returns the old value; the swap was made if it equals `compare`.
  [[nodiscard]] Result<std::uint64_t> compare_swap(RemoteAtomic at, std::uint64_t compare,
                                                   std::uint64_t swap, Deadline deadline = {});
  /// Any other work, with any number of elements.
  template <class Work>
  [[nodiscard]] VERBATIM_HOT Result<Completion> run(
      const Work& work, Deadline deadline = {},
      std::source_location where = std::source_location::current()) noexcept {
    detail::ChannelCore& state = *state_;
    const detail::Ticket ticket = state.post(work, {detail::SlotState::flying, where});
    if (ticket.refused()) [[unlikely]]
      return std::unexpected(state.refusal(ticket.id));
    Completion completion;
    if (!state.arrived_fresh(*ticket.slot, ticket.id, completion)) [[unlikely]] {
      if (!state.await(*ticket.slot, ticket.id, deadline, detail::Memory::borrowed))
        return std::unexpected(detail::last_result.error);
      completion = detail::last_result.completion;
    }
    return completion;
  }

  // Owned: the memory is gone until wait() returns it. See owned_operations.hpp.
  using OwnedOperations::read, OwnedOperations::receive, OwnedOperations::send,
      OwnedOperations::write;
  /// The next message, in a buffer of the Reactor's shared receives. `unsupported` on a channel
  /// without shared receives, which receives into your own memory.
  [[nodiscard]] Incoming receive(std::source_location where = std::source_location::current()) {
    return Incoming{usable(where)};
  }

  /// Many operations on borrowed memory; scope.hpp has the table of outcomes. The closure takes a
  /// Scope& and returns nothing, a value, or a Result.
  template <class F>
  [[nodiscard]] auto scope(F&& body, std::source_location where = std::source_location::current()) {
    return detail::ScopeRun::run<Scope>(usable(where), body, false, where);
  }
  /// As scope(), but the closure waits for every handle itself. Leaving one is a programming error,
  /// even if the work succeeded, unless the closure fails or throws. The scope still waits for
  /// detached work, which has no handle.
  template <class F>
  [[nodiscard]] auto manual_scope(F&& body,
                                  std::source_location where = std::source_location::current()) {
    return detail::ScopeRun::run<Scope>(usable(where), body, true, where);
  }

  /// Takes completions into the operations' slots. Never waits. Returns how many results have come
  /// since the last poll(), including those that another call of this channel found while it
  /// waited.
  [[nodiscard]] Result<std::size_t> poll() noexcept;
  /// For epoll: readable when poll() has something to do or to report. This call and each poll()
  /// arm it.
  [[nodiscard]] Result<int> fd() noexcept;

  /// Why the channel takes no more work; empty while it does.
  [[nodiscard]] const std::optional<Error>& cause() const noexcept;
  [[nodiscard]] const QueuePairLimits& limits() const noexcept;
  [[nodiscard]] const Agreement& agreement() const noexcept;
  [[nodiscard]] const ProtectionDomain& domain() const noexcept;
  [[nodiscard]] std::uint32_t free_sends() const noexcept;  ///< Posts until `would_block`.
  [[nodiscard]] std::uint32_t free_receives() const noexcept;
  /// Messages that arrived in receives whose Pending was dropped: the program has not seen them.
  [[nodiscard]] std::uint64_t dropped_messages() const noexcept;

  /// The ready phase, for callers who carry endpoints themselves (Listener and dial() do it too).
  /// After connect() each side carries its ready_record() to the other, and sends nothing before it
  /// has confirmed the peer's.
  ///
  /// Without it: connect() is local, so a first message may come before the peer is connected. The
  /// device resends it until the ack timeout has passed max_ack_retries times. If the peer takes
  /// longer, the channel breaks with `retry exceeded`. And a record of an earlier connection, whose
  /// queue pair number is in use again, goes unnoticed.
  [[nodiscard]] ReadyRecord ready_record() const noexcept;
  /// Checks that the peer is connected to this very channel. `malformed`: the bytes are not such a
  /// record; `incompatible`: they belong to another connection. The error names the field, and the
  /// channel is unchanged.
  [[nodiscard]] Result<void> confirm(std::span<const std::byte> peer_record) const noexcept;

  [[nodiscard]] Canceller canceller() const noexcept;
  void cancel() const noexcept { canceller().cancel(); }
  /// Ends the channel when a stop is requested.
  void cancel_on(const std::stop_token& token);

  /// Ends the channel: waits until its own sends are over, then stops the device. Results of
  /// operations can still be taken; receives without a message are `closed`. `timed_out` if sends
  /// were still in flight: they are flushed.
  ///
  /// On a channel of Listener or dial() it also tells the peer that it is done, and waits until the
  /// peer closes too. A peer that still sends would take a missing queue pair for a broken network.
  /// If the peer takes longer than `deadline`, it is `timed_out` naming "the peer's done". A peer
  /// whose connection has ended counts as done.
  ///
  /// Closing again, or after the peer closed, succeeds.
  [[nodiscard]] Result<void> close(Deadline deadline = {}) noexcept;
  /// Begins what close() does, and does not wait. poll() and every wait continue it; poll() fails
  /// with `closed` when it is over. Sends are `closed` from now on. close() waits for the rest and
  /// returns the result.
  void start_close(Deadline deadline = {}) noexcept;
  /// Whether the channel has ended and all results are there. Between cause() and this point the
  /// device gives back what it holds.
  [[nodiscard]] bool is_over() const noexcept;
  /// For callers who carry endpoints themselves and want such a close: both sides call
  /// finish_sends(), tell each other, and then close(). The channel lives on, also after
  /// `timed_out`.
  [[nodiscard]] Result<void> finish_sends(Deadline deadline = {}) noexcept;
  /// Turns a channel that ended into a prepared one: same domain, memory and completion queue, new
  /// sequence number and nonce. `busy` if it has not ended or results were not taken;
  /// `device_failed` if the device or the completion queue failed. An earlier cancel or stop
  /// request no longer counts. Existing cancellers stay valid; call cancel_on() again.
  [[nodiscard]] Result<PreparedChannel> recycle() &&;

  Channel(Channel&& other) noexcept
      : OwnedOperations(*std::exchange(other.state_, &detail::gone_channel)) {}
  Channel& operator=(Channel&& other) noexcept;
  ~Channel() {
    if (state_ != &detail::gone_channel) release(*state_);
  }

 private:
  friend class PreparedChannel;
  friend struct detail::ChannelAccess;
  friend struct detail::Rendezvous;
  friend class unsafe::PendingWork;
  friend std::string to_string(const Channel& channel);
  explicit Channel(detail::ChannelCore& state) noexcept : OwnedOperations(state) {}
  static void release(detail::ChannelCore& state) noexcept;

  /// Posts need not check: a moved-from channel has no free slots.
  [[nodiscard]] detail::ChannelCore& usable(std::source_location where) const {
    check(state_ != &detail::gone_channel, "Channel: used after it was moved from", where);
    return *state_;
  }
  /// The whole state.
  [[nodiscard]] detail::ChannelState& whole() const;
};

/// "channel over RC queue pair 0x000040 on soft0 port 1, to 0x000041: open", or why it has ended.
[[nodiscard]] std::string to_string(const Channel& channel);

}  // namespace verbatim

#include "verbatim/channel/prepared_channel.hpp"  // After the class: recycle() returns it.
