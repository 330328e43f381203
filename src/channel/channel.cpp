// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/channel.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <random>
#include <string_view>

#include "channel/interrupt.hpp"
#include "channel/leave.hpp"
#include "channel/patience.hpp"
#include "channel/ready_record.hpp"
#include "channel/slot_states.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace detail {
namespace {

constexpr std::uint32_t kDefaultRequests = 127;

/// A queue's part of the slab: `count` slots, then the marker's.
void lay_out(ChannelState& state, OperationQueue& queue, Slot* first, std::uint32_t count) {
  queue.channel = &state;
  queue.first = first;
  queue.count = count;
  queue.free = nullptr;
  for (std::uint32_t i = count + 1; i-- > 0;) {
    first[i].queue = &queue;
    UnsafeAccess::set_ok(first[i].completion);
    if (i < count) queue.release(first[i]);
  }
}

/// One failure per slot: no more can be outstanding.
std::unique_ptr<std::vector<Error>> room_for_failures(std::size_t count) {
  auto room = std::make_unique<std::vector<Error>>();
  room->reserve(count);
  return room;
}

/// Slots for all that the queues may hold, in a power of two, so that a foreign wr_id masked into
/// the slab finds a slot whose id it does not equal.
void make_slab(ChannelState& state, std::uint32_t sends, std::uint32_t receives) {
  const std::uint32_t needed = sends + receives + 2;
  state.mask = std::bit_ceil(needed) - 1;
  state.slab = std::make_unique<Slot[]>(state.mask + 1);
  state.orphans = std::make_unique<Orphan[]>(state.mask + 1);
  state.batch_requests = std::make_unique<ibv_send_wr[]>(sends);
  for (std::uint32_t i = 0; i + 1 < sends; ++i)
    state.batch_requests[i].next = &state.batch_requests[i + 1];
  state.signal_every = std::max(sends / 2, 1u);
  state.slots = state.slab.get();
  // Random, so that a handle of one channel matches nothing in another.
  std::random_device random;
  const std::uint64_t start = (std::uint64_t{random()} << kIndexBits) | kGeneration;
  for (std::uint64_t i = 0; i <= state.mask; ++i) state.slots[i].id = start | i;
  lay_out(state, state.send_queue, state.slots, sends);
  lay_out(state, state.receive_queue, state.slots + sends + 1, receives);
  state.spare_failures = room_for_failures(needed);
}

QueuePairOptions queue_pair_options(const ChannelOptions& options, const ProtectionDomain& domain,
                                    const CompletionQueue& queue, std::uint32_t sends,
                                    std::uint32_t receives) {
  return {.domain = domain,
          .send_queue = queue,
          .receive_queue = queue,
          .access = domain.context().capabilities().atomics
                        ? options.access
                        : options.access.without(Access::remote_atomic),
          .max_send_requests = sends + 1,  // And the marker.
          .max_receive_requests = receives + 1,
          .max_send_elements = options.max_send_elements,
          .max_receive_elements = options.max_receive_elements,
          .max_inline_bytes = options.max_inline_bytes,
          .mtu = options.mtu,
          .max_read_atomic = options.max_read_atomic,
          .ack_timeout = options.ack_timeout,
          .max_ack_retries = options.max_ack_retries,
          .max_rnr_retries = options.max_rnr_retries,
          .min_rnr_timer = options.min_rnr_timer,
          .route = options.route};
}

Result<std::uint32_t> requests(const std::optional<std::uint32_t>& asked, const char* field) {
  const std::uint32_t count = asked.value_or(kDefaultRequests);
  if (count == 0 || count > kMaxSlots / 4)
    return std::unexpected(Error{.code = count == 0 ? Errc::invalid_argument : Errc::limit_exceeded,
                                 .operation = "PreparedChannel::create",
                                 .field = field,
                                 .value = count,
                                 .limit = kMaxSlots / 4});
  return count;
}

Result<void> check_times(const ChannelOptions& options) {
  const auto check = [](std::chrono::nanoseconds time, const char* field) -> Result<void> {
    if (time >= std::chrono::nanoseconds::zero()) return {};
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "PreparedChannel::create",
                                 .field = field,
                                 .value = static_cast<std::uint64_t>(time.count())});
  };
  VERBATIM_TRY(check(options.timeout, "timeout"));
  VERBATIM_TRY(check(options.flush_timeout, "flush_timeout"));
  return {};
}

/// A time limit that can be added to now.
Timeout bounded(const ChannelState& state, Timeout limit) noexcept {
  return std::min<Timeout>(limit < Timeout::zero() ? state.options.timeout : limit,
                           Patience::kLongest);
}

/// Takes the prepared queue pair over: from now on receives can be posted.
void adopt(ChannelState& state, PreparedQueuePair prepared) {
  state.max_receive_elements = prepared.limits().max_receive_elements;
  state.raw = UnsafeAccess::raw(prepared);
  state.prepared.emplace(std::move(prepared));
}

}  // namespace

ChannelState::ChannelState(ChannelOptions chosen, ProtectionDomain in, CompletionChannel channel,
                           CompletionQueue queue)
    : options(chosen),
      domain(std::move(in)),
      events(std::move(channel)),
      completions(std::move(queue)),
      interrupt(std::make_shared<Interrupt>()) {
  interrupt->channel = this;
  cq = UnsafeAccess::raw(completions);
}

ChannelState::~ChannelState() {
  if (async_events.get() >= 0) UnsafeAccess::unwatch_events(domain.context(), async_events.get());
  interrupt->detach();
}

}  // namespace detail

// ---- Canceller ----------------------------------------------------------------------------------

Canceller::Canceller(std::shared_ptr<detail::Interrupt> interrupt) noexcept
    : interrupt_(std::move(interrupt)) {}
void Canceller::cancel() const noexcept {
  if (interrupt_) interrupt_->raise();  // Else it was moved from.
}

// ---- PreparedChannel ----------------------------------------------------------------------------

Result<PreparedChannel> PreparedChannel::create(const ProtectionDomain& domain,
                                                const ChannelOptions& options) {
  const std::uint32_t sends = VERBATIM_TRY(detail::requests(options.max_sends, "max_sends"));
  const std::uint32_t receives =
      VERBATIM_TRY(detail::requests(options.max_receives, "max_receives"));
  VERBATIM_TRY(detail::check_times(options));
  const Context context = domain.context();
  const CompletionChannel events = VERBATIM_TRY(context.create_completion_channel());
  // A device may make queues deeper than asked for, and each place needs one here.
  std::uint32_t depth = sends + receives + 2;
  for (int attempt = 0;; ++attempt) {
    CompletionQueue queue =
        VERBATIM_TRY(context.create_completion_queue({.depth = depth, .channel = events}));
    auto prepared =
        QueuePair::prepare(detail::queue_pair_options(options, domain, queue, sends, receives));
    if (!prepared) {
      const Error& error = prepared.error();
      const bool too_shallow = error.code == Errc::limit_exceeded &&
                               std::string_view{error.field} == "completion queue depth";
      if (attempt == 0 && too_shallow && error.value > depth) {
        depth = static_cast<std::uint32_t>(error.value);
        continue;
      }
      return std::unexpected(error);
    }
    auto state = std::make_unique<detail::ChannelState>(options, domain, events, std::move(queue));
    detail::make_slab(*state, sends, receives);
    detail::adopt(*state, *std::move(prepared));
    state->interrupt->admit();
    return PreparedChannel{state.release()};
  }
}

const Endpoint& PreparedChannel::endpoint() const noexcept { return owned().prepared->endpoint(); }

Pending<Buffer> PreparedChannel::receive(Buffer buffer, ByteRange range,
                                         std::source_location where) {
  detail::ChannelState& state = owned();
  const detail::Ticket ticket =
      state.post(Receive{Channel::scatter(buffer, range, where)}, detail::SlotState::flying, where);
  return {state, ticket, std::move(buffer)};
}

Result<Channel> PreparedChannel::connect(const Endpoint& peer) && {
  detail::ChannelState& state = owned();
  // A receive whose time was over has destroyed the queue pair.
  if (state.cause) return std::unexpected(*state.cause);
  auto connected = std::move(*state.prepared).connect(peer);
  if (!connected) return std::unexpected(connected.error());
  state.queue_pair.emplace(*std::move(connected));
  state.prepared.reset();
  state.interrupt->admit();
  return Channel{std::exchange(state_, nullptr)};
}

PreparedChannel& PreparedChannel::operator=(PreparedChannel&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr) state_->close();
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}
PreparedChannel::~PreparedChannel() {
  if (state_ != nullptr) state_->close();
}

// ---- Channel ------------------------------------------------------------------------------------

void Channel::release(detail::ChannelState* state) noexcept {
  // Closed last, and also when results that were not taken keep the state: the peer may wait for
  // us, and that tells it that we are gone.
  const detail::FileDescriptor link = std::move(state->link);
  state->close();
}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr) release(state_);
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}

namespace {

/// The result of an atomic comes into memory of the channel's own.
template <class Work>
Result<std::uint64_t> run_atomic(Channel& channel, detail::ChannelState& state, Work&& make,
                                 Timeout limit) {
  if (!state.atomic_result)
    state.atomic_result = VERBATIM_TRY(state.domain.allocate(sizeof(std::uint64_t)));
  const auto done =
      channel.run(make(state.atomic_result->scatter(0, sizeof(std::uint64_t))), limit);
  if (!done) return std::unexpected(done.error());
  std::uint64_t before = 0;
  std::memcpy(&before, state.atomic_result->bytes().data(), sizeof before);
  return before;
}

}  // namespace

Result<std::uint64_t> Channel::fetch_add(RemoteAtomic at, std::uint64_t add, Timeout limit) {
  return run_atomic(
      *this, owned(),
      [&](ScatterElement into) { return FetchAdd{.into = std::move(into), .at = at, .add = add}; },
      limit);
}

Result<std::uint64_t> Channel::compare_swap(RemoteAtomic at, std::uint64_t compare,
                                            std::uint64_t swap, Timeout limit) {
  return run_atomic(
      *this, owned(),
      [&](ScatterElement into) {
        return CompareSwap{.into = std::move(into), .at = at, .compare = compare, .swap = swap};
      },
      limit);
}

Result<std::size_t> Channel::poll() noexcept {
  std::size_t total = 0;
  detail::ChannelState& state = owned();
  if (state.epoll.get() >= 0) {
    state.acknowledge_events();
    std::uint64_t raised = 0;
    if (::read(state.async_events.get(), &raised, sizeof raised) < 0) raised = 0;  // None was.
    // Before the last poll, so that none is overlooked. A queue that cannot be armed is broken, and
    // the poll says so.
    [[maybe_unused]] const auto armed = state.completions.arm();
  }
  for (;;) {
    const int count = state.drain();
    if (count < 0) state.expire({.code = Errc::device_failed, .operation = "ibv_poll_cq"});
    if (count <= 0) break;
    total += static_cast<std::size_t>(count);
  }
  state.heed_interrupts();
  if (state.cause && total == 0) return std::unexpected(*state.cause);
  return total;
}

Result<int> Channel::fd() noexcept {
  detail::ChannelState& state = owned();
  if (state.epoll.get() < 0) {
    detail::FileDescriptor epoll{epoll_create1(EPOLL_CLOEXEC)};
    if (epoll.get() < 0) return std::unexpected(os_failure("epoll_create1", errno));
    detail::FileDescriptor async_events{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (async_events.get() < 0) return std::unexpected(os_failure("eventfd", errno));
    for (const int source : {state.events.fd(), state.interrupt->fd, async_events.get()}) {
      epoll_event wanted{.events = EPOLLIN, .data = {.fd = source}};
      if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, source, &wanted) != 0)
        return std::unexpected(os_failure("epoll_ctl", errno));
    }
    UnsafeAccess::watch_events(state.domain.context(), async_events.get());
    state.async_events = std::move(async_events);
    state.epoll = std::move(epoll);
  }
  VERBATIM_TRY(state.completions.arm());
  return state.epoll.get();
}

std::uint32_t Channel::free_sends() const noexcept { return owned().send_queue.credit(); }
std::uint32_t Channel::free_receives() const noexcept { return owned().receive_queue.credit(); }

ReadyRecord Channel::ready_record() const noexcept {
  const QueuePair& connected = *owned().queue_pair;
  return detail::encode_ready(connected.endpoint().nonce, connected.agreement().remote_nonce);
}

Result<void> Channel::confirm(std::span<const std::byte> peer_record) const noexcept {
  const QueuePair& connected = *owned().queue_pair;
  return detail::check_ready(peer_record, connected.endpoint().nonce,
                             connected.agreement().remote_nonce);
}

void Channel::cancel_on(const std::stop_token& token) {
  detail::ChannelState& state = owned();
  state.stop.reset();
  state.stop.emplace(token, [interrupt = state.interrupt] { interrupt->raise(); });
}

Result<void> Channel::finish_sends(Timeout limit) noexcept {
  detail::ChannelState& state = owned();
  const bool finished = state.finish_sends(detail::bounded(state, limit));
  if (state.cause) return std::unexpected(*state.cause);
  if (!finished)
    return std::unexpected(Error{.code = Errc::timed_out, .operation = "finish_sends"});
  return {};
}

Result<void> Channel::close(Timeout limit) noexcept {
  detail::ChannelState& state = owned();
  const detail::FileDescriptor link = std::move(state.link);  // Closed when all else is over.
  if (state.cause) return std::unexpected(*state.cause);
  const Timeout allowed = detail::bounded(state, limit);
  const auto deadline = std::chrono::steady_clock::now() + allowed;
  const bool finished = state.finish_sends(allowed);
  Result<void> parted;
  if (finished && !state.cause && link.get() >= 0)
    parted = detail::take_leave(state, link.get(), deadline);
  const std::optional<Error> failed = state.cause;
  state.expire({.code = Errc::closed, .operation = "close"});
  if (failed) return std::unexpected(*failed);
  if (!finished) return std::unexpected(Error{.code = Errc::timed_out, .operation = "close"});
  return parted;
}

Result<PreparedChannel> Channel::recycle() && {
  detail::ChannelState& state = owned();
  state.heed_interrupts();
  std::uint32_t held = 0;
  for (const detail::OperationQueue* queue : {&state.send_queue, &state.receive_queue})
    for (detail::Slot* slot = queue->first; slot != queue->first + queue->count; ++slot)
      if (slot->state > detail::SlotState::chained) ++held;
  if (!state.cause || held != 0 || state.open_scopes != 0)
    return std::unexpected(Error{.code = Errc::busy,
                                 .operation = "recycle",
                                 .field = !state.cause             ? "the channel has not ended"
                                          : state.open_scopes != 0 ? "a scope is open"
                                                                   : "results that were not taken",
                                 .value = held});
  const EventFlags gone = state.completions.events() | state.domain.context().events();
  if (!state.proven || gone.has_any(EventType::completion_queue_error | EventType::device_fatal))
    return std::unexpected(Error{.code = Errc::device_failed,
                                 .operation = "recycle",
                                 .field = state.proven ? "events" : "the device does not stop",
                                 .value = gone.bits});
  if (!state.spare_failures)
    state.spare_failures =
        detail::room_for_failures(state.send_queue.count + state.receive_queue.count + 2);
  // What the device still reports of former requests has a stale id, and is dropped.
  if (state.destroyed) {
    state.queue_pair.reset();
    // Only a look that finds nothing gives the places of the old queue pair free.
    std::array<Completion, detail::kPollBatch> stale;
    while (VERBATIM_TRY(state.completions.poll(stale)) > 0) {
    }
    detail::adopt(state, VERBATIM_TRY(QueuePair::prepare(detail::queue_pair_options(
                             state.options, state.domain, state.completions, state.send_queue.count,
                             state.receive_queue.count))));
  } else {
    detail::adopt(state, VERBATIM_TRY(std::move(*state.queue_pair).reset()));
    state.queue_pair.reset();
  }
  while (state.drain() > 0) {
  }
  for (detail::OperationQueue* queue : {&state.send_queue, &state.receive_queue})
    detail::lay_out(state, *queue, queue->first, queue->count);
  state.stop.reset();
  state.link = detail::FileDescriptor{};
  state.interrupt->reset();
  state.end_of_message.store(0);  // Until it is connected.
  state.interrupt->admit();
  state.cause.reset();
  state.failure.reset();
  state.gave_back = false;
  state.destroyed = false;
  return PreparedChannel{std::exchange(state_, nullptr)};
}

// ---- Pairs --------------------------------------------------------------------------------------

Result<std::pair<Channel, Channel>> connect_pair(const ProtectionDomain& domain,
                                                 const ChannelOptions& options) {
  auto left = VERBATIM_TRY(PreparedChannel::create(domain, options));
  auto right = VERBATIM_TRY(PreparedChannel::create(domain, options));
  const Endpoint left_endpoint = left.endpoint();
  const Endpoint right_endpoint = right.endpoint();
  Channel left_connected = VERBATIM_TRY(std::move(left).connect(right_endpoint));
  Channel right_connected = VERBATIM_TRY(std::move(right).connect(left_endpoint));
  return std::pair{std::move(left_connected), std::move(right_connected)};
}

}  // namespace verbatim
