// SPDX-License-Identifier: MIT OR Apache-2.0
// How channels are made: new ones, and ones from a channel that has ended.
#include "verbatim/channel/prepared_channel.hpp"

#include <algorithm>
#include <string_view>

#include "channel/channel_state.hpp"
#include "channel/interrupt.hpp"
#include "channel/prepare_on.hpp"
#include "channel/shared_receives.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/life_log.hpp"

namespace verbatim {
namespace detail {
namespace {

constexpr std::uint32_t kDefaultRequests = 127;

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
  VERBATIM_TRY(check(options.keepalive, "keepalive"));
  return {};
}

QueuePairOptions queue_pair_options(const ChannelOptions& options, const ProtectionDomain& domain,
                                    const CompletionCore& core, Depths depths) {
  const CompletionQueue& queue = core.completions;
  const SharedReceives* const shared = core.shared_receives;
  const bool is_shared = shared != nullptr && shared->queue;
  const std::uint32_t receives = shared != nullptr ? SharedReceives::kOwnReceives : depths.receives;
  const std::optional<std::uint32_t> none{};
  return {.domain = domain,
          .send_completions = queue,
          .receive_completions = queue,
          .access = domain.context().capabilities().atomics
                        ? options.access
                        : options.access.without(Access::remote_atomic),
          .shared_receive_queue = is_shared ? shared->queue : std::nullopt,
          .max_send_requests = depths.sends + 1 + depths.keepalives,  // One for the marker.
          .max_receive_requests = is_shared ? none : receives + 1,
          .max_send_elements = options.max_send_elements,
          .max_receive_elements = is_shared ? none : options.max_receive_elements,
          .max_inline_bytes = options.max_inline_bytes,
          .mtu = options.mtu,
          .max_read_atomic = options.max_read_atomic,
          .psn = options.psn,
          .ack_timeout = options.ack_timeout,
          .max_ack_retries = options.max_ack_retries,
          .max_rnr_retries = options.max_rnr_retries,
          .min_rnr_timer = options.min_rnr_timer,
          .route = options.route};
}

/// Lays out a queue's part of the run: `count` slots, then the marker's slot.
void lay_out(ChannelState& state, OperationQueue& queue, Slot* first, std::uint32_t count) {
  queue.channel = &state;
  queue.first = first;
  queue.count = count;
  queue.free = nullptr;
  for (std::uint32_t i = count + 1; i-- > 0;) {
    first[i].queue = &queue;
    first[i].completion = std::bit_cast<Completion>(ibv_wc{});
    if (i < count) queue.release(first[i]);
  }
}

/// The requests of a batch, each linked to the next.
template <class Request>
std::unique_ptr<Request[]> make_chain(std::uint32_t count) {
  auto chain = std::make_unique<Request[]>(count);
  for (std::uint32_t i = 0; i + 1 < count; ++i) chain[i].next = &chain[i + 1];
  return chain;
}

/// Takes over the prepared queue pair. From now on receives can be posted.
void adopt(ChannelState& state, PreparedQueuePair prepared, const char* what) {
  state.queue_pair_number = prepared.number();
  if (log_enabled()) log_life(what, name_of_object(Raw::of(prepared)));
  state.max_receive_elements = prepared.limits().max_receive_elements;
  state.raw = Raw::of(prepared);
  state.prepared.emplace(std::move(prepared));
  if (state.core->shared_receives == nullptr) return;
  state.inbox = new Inbox{state};
  state.core->shared_receives->enrol(*state.inbox, state.queue_pair_number);
}

/// Leaves the inbox. The queue pair may still hold receives of the shared queue, so it is retired
/// instead of destroyed.
void leave_inbox(ChannelState& state) noexcept {
  if (state.inbox == nullptr) return;
  Inbox& inbox = *std::exchange(state.inbox, nullptr);
  if (inbox.shared.queue && state.queue_pair && !state.ending.destroyed && !state.in_child())
    inbox.shared.retire(*std::exchange(state.queue_pair, std::nullopt), inbox,
                        state.ending.flush_end);
  inbox.leave();
}

}  // namespace

ChannelState::ChannelState(const ChannelOptions& chosen, ProtectionDomain in,
                           std::shared_ptr<CompletionCore> on, std::span<Slot> claimed)
    : ChannelCore("channel send", "channel receive"),
      core(std::move(on)),
      run(claimed),
      options(chosen),
      domain(std::move(in)),
      interrupt(std::make_shared<Interrupt>(core->waker)) {
  interrupt->channel = this;
  cq = Raw::of(core->completions);
  slots = core->slab.slots();
  mask = core->slab.mask();
  if (core->driver != nullptr) join_core();
  listen();
}

ChannelState::~ChannelState() {
  stop_listening();
  leave_core();
  if (watched.raised.get() >= 0) Raw::unwatch_events(core->context, watched.raised.get());
  interrupt->detach();
  leave_inbox(*this);
  queue_pair.reset();
  prepared.reset();
  core->slab.give_back(run);
  if (log_enabled() && !in_child())
    log_life("destroyed channel over", name_of_queue_pair(queue_pair_number, cq->context));
}

Result<ChannelState*> prepare_on(const std::shared_ptr<CompletionCore>& core,
                                 const ProtectionDomain& domain, const ChannelOptions& options,
                                 Depths depths) {
  // Claims the slots first, because the completion queue entries of a queue pair that is created in
  // vain become free only later.
  const auto run = VERBATIM_TRY(core->slab.claim(depths.slots()));
  auto prepared = QueuePair::prepare(queue_pair_options(options, domain, *core, depths));
  if (!prepared) {
    core->slab.give_back(run);
    return std::unexpected(prepared.error());
  }
  auto state = std::make_unique<ChannelState>(options, domain, core, run);
  state->orphans = std::make_unique<Orphan[]>(run.size());
  state->requests = make_chain<ibv_send_wr>(depths.sends);
  state->batch_requests = state->requests.get();
  state->receive_list = make_chain<ibv_recv_wr>(depths.receives);
  state->receive_requests = state->receive_list.get();
  lay_out(*state, state->sends, run.data(), depths.sends);
  lay_out(*state, state->receives, run.data() + depths.sends + 1, depths.receives);
  if (depths.keepalives != 0) {
    state->keepalive.slot = &run.back();
    state->keepalive.slot->queue = &state->sends;
  }
  adopt(*state, *std::move(prepared), "created channel over");
  state->interrupt->admit();
  return state.release();
}

}  // namespace detail

Result<PreparedChannel> PreparedChannel::create(const ProtectionDomain& domain,
                                                const ChannelOptions& options) {
  const detail::Depths depths{
      .sends = VERBATIM_TRY(detail::requests(options.max_sends, "max_sends")),
      .receives = options.on.core() && options.on.core()->shared_receives != nullptr
                      ? 0
                      : VERBATIM_TRY(detail::requests(options.max_receives, "max_receives")),
      .keepalives = options.keepalive != std::chrono::nanoseconds::zero() ? 1u : 0u};
  VERBATIM_TRY(detail::check_times(options));
  if (const auto& shared = options.on.core()) {
    if (detail::Raw::of(shared->context) != detail::Raw::of(domain.context()))
      return std::unexpected(Error{.code = Errc::invalid_argument,
                                   .operation = "PreparedChannel::create",
                                   .field = "the reactor is of another context"});
    return PreparedChannel{VERBATIM_TRY(detail::prepare_on(shared, domain, options, depths))};
  }
  // A device may make queues deeper than requested, and each place needs an entry in the completion
  // queue.
  std::uint32_t depth = depths.slots();
  for (int attempt = 0;; ++attempt) {
    const auto core =
        VERBATIM_TRY(detail::CompletionCore::create(domain.context(), depth, depths.slots()));
    const auto state = detail::prepare_on(core, domain, options, depths);
    if (state) return PreparedChannel{*state};
    const Error& error = state.error();
    const bool too_shallow = error.code == Errc::limit_exceeded &&
                             std::string_view{error.field} == "completion queue depth";
    if (attempt > 0 || !too_shallow || error.value <= depth) return std::unexpected(error);
    depth = static_cast<std::uint32_t>(error.value);
  }
}

const Endpoint& PreparedChannel::endpoint() const noexcept { return owned().prepared->endpoint(); }

detail::ChannelCore& PreparedChannel::core() const { return owned(); }

Result<Channel> PreparedChannel::connect(const Endpoint& peer) && {
  detail::ChannelState& state = owned();
  // A receive that timed out has destroyed the queue pair.
  if (state.cause) return std::unexpected(*state.cause);
  if (state.keepalive.slot != nullptr && !peer.remote_write)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = "connect", .field = "keepalive"});
  auto connected = std::move(*state.prepared).connect(peer);
  if (!connected) return std::unexpected(connected.error());
  state.queue_pair.emplace(*std::move(connected));
  state.limits = detail::Raw::limits(*state.queue_pair);
  state.prepared.reset();
  state.interrupt->admit();
  state.begin_keepalive(detail::ChannelState::Clock::now());
  state_ = nullptr;
  return Channel{state};
}

PreparedChannel& PreparedChannel::operator=(PreparedChannel&& other) noexcept {
  if (this != &other) {
    if (state_ != nullptr) state_->abandon();
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}
PreparedChannel::~PreparedChannel() {
  if (state_ != nullptr) state_->abandon();
}

std::string to_string(const PreparedChannel& channel) {
  if (channel.state_ == nullptr) return "channel, connected or moved from";
  return "channel over " + to_string(*channel.state_->prepared);
}

Result<PreparedChannel> Channel::recycle() && {
  detail::ChannelState& state = whole();
  state.heed_interrupts();
  if (state.is_ending()) state.see_it_end();
  const auto held = static_cast<std::uint64_t>(std::ranges::count_if(
      state.run, [](const detail::Slot& slot) { return slot.state == detail::SlotState::parked; }));
  const bool has_unread = state.inbox != nullptr && state.inbox->first != nullptr;
  const bool ended = state.is_over();
  if (!ended || held != 0 || has_unread || state.open_scopes != 0)
    return std::unexpected(Error{.code = Errc::busy,
                                 .operation = "recycle",
                                 .field = !ended                   ? "the channel has not ended"
                                          : state.open_scopes != 0 ? "a scope is open"
                                          : has_unread ? "messages that were not received"
                                                       : "results that were not taken",
                                 .value = held});
  const EventFlags gone = state.core->completions.events() | state.core->context.events();
  if (!state.ending.proven ||
      gone.has_any(EventType::completion_queue_error | EventType::device_fatal))
    return std::unexpected(
        Error{.code = Errc::device_failed,
              .operation = "recycle",
              .field = state.ending.proven ? "events" : "the device does not stop",
              .value = gone.bits});
  // Completions of former requests have a stale id, and are dropped. Completions of other channels
  // are filed there.
  if (state.ending.destroyed || state.inbox != nullptr) {
    detail::leave_inbox(state);
    state.queue_pair.reset();
    VERBATIM_TRY(state.core->sweep());
    detail::adopt(state,
                  VERBATIM_TRY(QueuePair::prepare(detail::queue_pair_options(
                      state.options, state.domain, *state.core,
                      {.sends = state.sends.count,
                       .receives = state.receives.count,
                       .keepalives = state.keepalive.slot != nullptr ? 1u : 0u}))),
                  "recycled channel over");
  } else {
    detail::adopt(state, VERBATIM_TRY(std::move(*state.queue_pair).reset()),
                  "recycled channel over");
    state.queue_pair.reset();
    [[maybe_unused]] const auto swept = state.core->sweep();  // A broken queue fails again later.
  }
  for (detail::OperationQueue* queue : {&state.sends, &state.receives})
    detail::lay_out(state, *queue, queue->first, queue->count);
  state.stop.reset();
  state.drop_link();
  state.leave = {};
  state.interrupt->reset();
  state.end_of_message.store(0);  // Until it is connected.
  state.interrupt->admit();
  state.cause.reset();
  state.ending = {};
  state_ = &detail::gone_channel;
  return PreparedChannel{&state};
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
