// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A connection between two peers whose operations keep their buffers until they are over.
///
///     PreparedChannel::create(domain) -> exchange endpoint() -> connect(peer) -> Channel
///
/// Three ways to use it, of one cost: blocking calls (`send(region.gather(x))`), owned operations
/// (`send(std::move(buffer))`, see pending.hpp), and scopes for many operations on borrowed memory
/// (scope.hpp).
///
/// Nothing waits for ever. When a wait's time is over the channel ends: its queue pair is stopped,
/// everything outstanding is given back, and only then the call returns, so that nothing can be
/// written to the buffer any more. One operation cannot be cancelled alone. A channel that ended
/// says why (`cause()`), and `recycle()` connects it anew.
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
#include <utility>

#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/channel/scope.hpp"

namespace verbatim {

namespace detail {
struct Rendezvous;
}

/// Which bytes of a buffer an owned operation uses.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t length = std::dynamic_extent;  ///< Default: to the end.
};

/// What Channel::ready_record() gives: a fixed number of bytes, for any carrier.
using ReadyRecord = std::array<std::byte, 24>;

/// Ends a channel from any thread, at any time, also after the channel is gone.
class Canceller {
 public:
  /// The channel ends as if a deadline had passed, with `cancelled` as its cause: the thread that
  /// uses it does that at its next call, or at once if it waits.
  void cancel() const noexcept;

 private:
  friend class Channel;
  explicit Canceller(std::shared_ptr<detail::Interrupt> interrupt) noexcept;
  std::shared_ptr<detail::Interrupt> interrupt_;
};

class Channel {
 public:
  // Blocking: one operation, and its result.
  template <std::size_t N = 1>
  [[nodiscard]] VERBATIM_HOT Result<Completion> send(
      const ElementList<GatherElement, N>& from, SendOptions options = {},
      Timeout limit = kChannelTimeout,
      std::source_location where = std::source_location::current()) noexcept {
    return run(Send<N>{from, options}, limit, where);
  }
  [[nodiscard]] VERBATIM_HOT Result<Completion> send(
      GatherElement from, SendOptions options = {}, Timeout limit = kChannelTimeout,
      std::source_location where = std::source_location::current()) noexcept {
    return run(Send{from, options}, limit, where);
  }
  [[nodiscard]] Result<Completion> receive(
      ScatterElement into, Timeout limit = kChannelTimeout,
      std::source_location where = std::source_location::current()) noexcept {
    return run(Receive{std::move(into)}, limit, where);
  }
  [[nodiscard]] Result<Completion> write(
      GatherElement from, WriteTarget to, WriteOptions options = {},
      Timeout limit = kChannelTimeout,
      std::source_location where = std::source_location::current()) noexcept {
    return run(Write<1>{from, to, options}, limit, where);
  }
  [[nodiscard]] Result<Completion> read(
      ScatterElement into, ReadSource from, ReadOptions options = {},
      Timeout limit = kChannelTimeout,
      std::source_location where = std::source_location::current()) noexcept {
    return run(Read<1>{std::move(into), from, options}, limit, where);
  }
  /// The value before.
  [[nodiscard]] Result<std::uint64_t> fetch_add(RemoteAtomic at, std::uint64_t add,
                                                Timeout limit = kChannelTimeout);
  /// The value before: the swap was made if it equals `compare`.
  [[nodiscard]] Result<std::uint64_t> compare_swap(RemoteAtomic at, std::uint64_t compare,
                                                   std::uint64_t swap,
                                                   Timeout limit = kChannelTimeout);
  /// Any other work, with as many elements as it has.
  template <class Work>
  [[nodiscard]] VERBATIM_HOT Result<Completion> run(
      const Work& work, Timeout limit = kChannelTimeout,
      std::source_location where = std::source_location::current()) noexcept {
    detail::ChannelState& state = *state_;
    const detail::Ticket ticket = state.post(work, detail::SlotState::flying, where);
    if (ticket.refused()) [[unlikely]]
      return std::unexpected(state.refusal(ticket.id));
    Completion completion;
    if (!state.arrived_fresh(*ticket.slot, ticket.id, completion)) [[unlikely]] {
      if (!state.await(*ticket.slot, ticket.id, limit, detail::Memory::borrowed))
        return std::unexpected(detail::last_result.error);
      completion = detail::last_result.completion;
    }
    return completion;
  }

  // Owned: the buffer is gone until wait() gives it back.
  [[nodiscard]] VERBATIM_HOT Pending<Buffer> send(
      Buffer buffer, ByteRange range = {}, SendOptions options = {},
      std::source_location where = std::source_location::current()) {
    const detail::Ticket ticket =
        state_->post(Send{gather(buffer, range, where), options}, detail::SlotState::flying, where);
    return {*state_, ticket, std::move(buffer)};
  }
  [[nodiscard]] VERBATIM_HOT Pending<Buffer> receive(
      Buffer buffer, ByteRange range = {},
      std::source_location where = std::source_location::current()) {
    const detail::Ticket ticket =
        state_->post(Receive{scatter(buffer, range, where)}, detail::SlotState::flying, where);
    return {*state_, ticket, std::move(buffer)};
  }
  [[nodiscard]] VERBATIM_HOT Pending<Buffer> write(
      Buffer buffer, WriteTarget to, ByteRange range = {}, WriteOptions options = {},
      std::source_location where = std::source_location::current()) {
    const detail::Ticket ticket = state_->post(Write<1>{gather(buffer, range, where), to, options},
                                               detail::SlotState::flying, where);
    return {*state_, ticket, std::move(buffer)};
  }
  [[nodiscard]] VERBATIM_HOT Pending<Buffer> read(
      Buffer buffer, ReadSource from, ByteRange range = {}, ReadOptions options = {},
      std::source_location where = std::source_location::current()) {
    const detail::Ticket ticket = state_->post(
        Read<1>{scatter(buffer, range, where), from, options}, detail::SlotState::flying, where);
    return {*state_, ticket, std::move(buffer)};
  }
  // Of several buffers, whole, as one message.
  template <std::size_t N>
  [[nodiscard]] Pending<std::array<Buffer, N>> send(
      std::array<Buffer, N> buffers, SendOptions options = {},
      std::source_location where = std::source_location::current()) {
    const detail::Ticket ticket = state_->post(Send<N>{gather_all(buffers, where), options},
                                               detail::SlotState::flying, where);
    return {*state_, ticket, std::move(buffers)};
  }
  template <std::size_t N>
  [[nodiscard]] Pending<std::array<Buffer, N>> receive(
      std::array<Buffer, N> buffers, std::source_location where = std::source_location::current()) {
    const detail::Ticket ticket =
        state_->post(Receive<N>{scatter_all(buffers, where)}, detail::SlotState::flying, where);
    return {*state_, ticket, std::move(buffers)};
  }

  /// Many operations on borrowed memory; the table of outcomes is in scope.hpp. The closure takes
  /// a Scope& and returns nothing, a value, or a Result.
  template <class F>
  auto scope(F&& body) {
    return run_scope(body, false, std::source_location::current());
  }
  /// As scope(), but the closure waits for every handle itself: one that it leaves is a programming
  /// error, whatever became of the work, unless the closure fails or throws. Detached work has no
  /// handle: the scope waits for it, as ever.
  template <class F>
  auto manual_scope(F&& body, std::source_location where = std::source_location::current()) {
    return run_scope(body, true, where);
  }

  /// Takes what has completed into the operations' slots; how many there were. Never waits. Waits
  /// and polls of operations do the same by themselves.
  [[nodiscard]] Result<std::size_t> poll() noexcept;
  /// For epoll: readable when poll() has something to do. Armed by this call and by each poll().
  [[nodiscard]] Result<int> fd() noexcept;

  /// Why the channel takes no more work; empty while it does.
  [[nodiscard]] const std::optional<Error>& cause() const noexcept { return owned().cause; }
  [[nodiscard]] const QueuePairLimits& limits() const noexcept {
    return owned().queue_pair->limits();
  }
  [[nodiscard]] const Agreement& agreement() const noexcept {
    return owned().queue_pair->agreement();
  }
  [[nodiscard]] const ProtectionDomain& domain() const noexcept { return owned().domain; }
  [[nodiscard]] std::uint32_t free_sends() const noexcept;  ///< Posts until `would_block`.
  [[nodiscard]] std::uint32_t free_receives() const noexcept;

  /// The ready phase, for callers who carry endpoints themselves (Listener and dial() do it too):
  /// after connect() each side carries its ready_record() to the other, and sends nothing before
  /// the peer's was confirmed.
  ///
  /// Without it: connect() is local, so a first message may come before the peer is connected. It
  /// is resent until the ack timeout has passed max_ack_retries times, and if the peer takes longer
  /// the channel breaks with `retry exceeded`. And a record of a former connection, whose queue
  /// pair number is in use again, is not told from the one meant.
  [[nodiscard]] ReadyRecord ready_record() const noexcept;
  /// Whether the peer is connected to this very channel. `malformed`: the bytes are no such record;
  /// `incompatible`: they are of another connection. The error names the field, and the channel is
  /// as it was.
  [[nodiscard]] Result<void> confirm(std::span<const std::byte> peer_record) const noexcept;

  [[nodiscard]] Canceller canceller() const noexcept { return Canceller{owned().interrupt}; }
  void cancel() const noexcept { canceller().cancel(); }
  /// The channel ends when a stop is requested.
  void cancel_on(const std::stop_token& token);

  /// Ends the channel: waits until our own sends are over, then stops the device. Results of
  /// operations can still be taken; receives that nothing came for are `closed`. `timed_out` if
  /// sends were still on their way: they are flushed.
  ///
  /// A channel of Listener or dial() also tells the peer that it is done, and waits until the peer
  /// closes too, so that nobody loses a peer that it still sends to: a queue pair that is gone
  /// looks to the other side like a broken network. `timed_out` naming "the peer's done" if the
  /// peer goes on for longer than `limit`; a peer whose connection has ended counts as done.
  [[nodiscard]] Result<void> close(Timeout limit = kChannelTimeout) noexcept;
  /// For who carries endpoints himself and wants such an end: both sides finish_sends(), tell each
  /// other so, and then close(). The channel lives on, also after `timed_out`.
  [[nodiscard]] Result<void> finish_sends(Timeout limit = kChannelTimeout) noexcept;
  /// A channel that ended becomes a prepared one: same domain, memory and completion queue, new
  /// sequence number and nonce. `busy` while results were not taken, or it has not ended;
  /// `device_failed` if the device or the completion queue is. A cancel or a stop request from
  /// before counts no more; for the next, cancellers stay good, and cancel_on() is called anew.
  [[nodiscard]] Result<class PreparedChannel> recycle() &&;

  Channel(Channel&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Channel& operator=(Channel&& other) noexcept;
  ~Channel() {
    if (state_ != nullptr) release(state_);
  }

 private:
  friend class PreparedChannel;
  friend struct UnsafeChannel;
  friend struct detail::Rendezvous;
  explicit Channel(detail::ChannelState* state) noexcept : state_(state) {}
  static void release(detail::ChannelState* state) noexcept;
  /// Posting and scopes take state_ as it is: they would pay for the question.
  [[nodiscard]] detail::ChannelState& owned() const {
    check(state_ != nullptr, "Channel: used after it was moved from");
    return *state_;
  }

  static GatherElement gather(const Buffer& buffer, ByteRange range, Buffer::Where where) {
    check_unseen(buffer, where);
    return range.length == std::dynamic_extent && range.offset == 0
               ? UnsafeAccess::whole<GatherElement>(buffer)
               : buffer.gather(range.offset, range.length, where);
  }
  static ScatterElement scatter(Buffer& buffer, ByteRange range, Buffer::Where where) {
    check_unseen(buffer, where);
    return range.length == std::dynamic_extent && range.offset == 0
               ? UnsafeAccess::whole<ScatterElement>(buffer)
               : buffer.scatter(range.offset, range.length, where);
  }
  static void check_unseen(const Buffer& buffer, Buffer::Where where) {
    const detail::BufferBlock* const block = UnsafeAccess::block(buffer);
    check(block != nullptr, "Channel: the buffer was moved away before", where);
    check(block->views == 0, "Channel: the buffer is posted while with() looks at it", where);
  }
  template <std::size_t N>
  static std::array<GatherElement, N> gather_all(const std::array<Buffer, N>& buffers,
                                                 Buffer::Where where) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<GatherElement, N>{gather(buffers[I], {}, where)...};
    }(std::make_index_sequence<N>{});
  }
  template <std::size_t N>
  static std::array<ScatterElement, N> scatter_all(std::array<Buffer, N>& buffers,
                                                   Buffer::Where where) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<ScatterElement, N>{scatter(buffers[I], {}, where)...};
    }(std::make_index_sequence<N>{});
  }

  template <class F>
  auto run_scope(F& body, bool manual, std::source_location where) {
    using Returned = std::invoke_result_t<F&, Scope&>;
    static_assert(!detail::kHoldsHandle<std::remove_cv_t<Returned>>,
                  "verbatim: the closure of a scope returns an Operation or the Scope: it would "
                  "outlive the scope");
    using Parts = detail::ScopeReturn<std::remove_cvref_t<Returned>>;
    using Value = typename Parts::Value;
    using Failure = typename Parts::Failure;
    using Outcome = ScopeResult<Value, Failure>;
    Scope scope{*state_};
    if constexpr (std::is_void_v<Returned>) {
      Scope::run(body, scope);
      return leave<Outcome, Failure>(scope, nullptr, manual, where);
    } else {
      auto returned = Scope::run(body, scope);
      if constexpr (Parts::kIsResult) {
        Failure* const failure = returned ? nullptr : &returned.error();
        auto left = leave<ScopeResult<void, Failure>, Failure>(scope, failure, manual, where);
        if (!left) [[unlikely]]
          return Outcome{std::unexpect, std::move(left.error())};
        if constexpr (std::is_void_v<Value>)
          return Outcome{};
        else
          return Outcome{std::move(*returned)};
      } else {
        auto left = leave<ScopeResult<void, Failure>, Failure>(scope, nullptr, manual, where);
        if (!left) [[unlikely]]
          return Outcome{std::unexpect, std::move(left.error())};
        return Outcome{std::move(returned)};
      }
    }
  }
  template <class Outcome, class Failure>
  static Outcome leave(Scope& scope, Failure* failure, bool manual, std::source_location where) {
    const std::uint32_t left = scope.state_.handles;
    scope.finish();
    if (manual && left != 0 && failure == nullptr) [[unlikely]]
      contract_violated("manual_scope(): operations were not waited for", left, 0, where);
    if (failure != nullptr || scope.state_.failures != nullptr) [[unlikely]] {
      ScopeError<Failure> error;
      if (failure != nullptr) error.closure = std::move(*failure);
      if (scope.state_.failures != nullptr) error.operations = std::move(*scope.state_.failures);
      return Outcome{std::unexpect, std::move(error)};
    }
    return Outcome{};
  }

  detail::ChannelState* state_;
};

/// A channel before it has a peer.
class PreparedChannel {
 public:
  /// Makes the queues. Receives may be posted from then on.
  [[nodiscard]] static Result<PreparedChannel> create(const ProtectionDomain& domain,
                                                      const ChannelOptions& options = {});

  /// What the peer needs; carry it there.
  [[nodiscard]] const Endpoint& endpoint() const noexcept;
  /// Before connect(), so that the peer's first message finds a receive.
  [[nodiscard]] Pending<Buffer> receive(
      Buffer buffer, ByteRange range = {},
      std::source_location where = std::source_location::current());

  /// Agrees with the peer. Local only: the peer may not be ready yet, and what is sent before it
  /// is, is retried for the ack timeout. If the endpoints are incompatible nothing was changed.
  [[nodiscard]] Result<Channel> connect(const Endpoint& peer) &&;

  PreparedChannel(PreparedChannel&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  PreparedChannel& operator=(PreparedChannel&& other) noexcept;
  ~PreparedChannel();

 private:
  friend class Channel;
  explicit PreparedChannel(detail::ChannelState* state) noexcept : state_(state) {}
  [[nodiscard]] detail::ChannelState& owned() const {
    check(state_ != nullptr, "PreparedChannel: used after it was connected or moved from");
    return *state_;
  }
  detail::ChannelState* state_;
};

/// Two channels of this process, connected to each other.
[[nodiscard]] Result<std::pair<Channel, Channel>> connect_pair(const ProtectionDomain& domain,
                                                               const ChannelOptions& options = {});

}  // namespace verbatim
