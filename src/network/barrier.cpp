// SPDX-License-Identifier: MIT OR Apache-2.0
// Creating barriers, entering them, and their steps as long as nothing has to be waited for.
#include "verbatim/network/barrier.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/relax_processor.hpp"
#include "channel/channel_state.hpp"
#include "channel/work_failure.hpp"
#include "network/barrier_state.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/reactor/close.hpp"

namespace verbatim {
namespace detail {
namespace {

constexpr const char* kBarrier = "barrier";
/// How often to look before yielding the processor: longer than a notice takes, shorter than a time
/// slice. Yielding too early makes two ranks on two processors wait for the scheduler.
constexpr unsigned kSpins = 2000;

std::unexpected<Error> refused(Errc code, const char* field, std::uint64_t value,
                               std::uint64_t limit = 0) {
  return std::unexpected(
      Error{.code = code, .operation = kBarrier, .field = field, .value = value, .limit = limit});
}

Result<void> check_ranks(const Group& group, std::span<const Rank> ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] >= group.world)
      return refused(Errc::invalid_argument, "ranks: beyond the world", ranks[i], group.world - 1);
    if (i > 0 && ranks[i] == ranks[i - 1])
      return refused(Errc::invalid_argument, "ranks: named twice", ranks[i]);
    if (i > 0 && ranks[i] < ranks[i - 1])
      return refused(Errc::invalid_argument, "ranks: not sorted", ranks[i]);
  }
  if (!std::ranges::binary_search(ranks, group.rank))
    return refused(Errc::invalid_argument, "ranks: without our own", group.rank);
  return {};
}

[[nodiscard]] ChannelState& state_of(const Channel& channel) {
  return whole(ChannelAccess::core(channel, std::source_location::current()));
}

}  // namespace

BarrierState::BarrierState(Group& group, std::span<const Rank> ranks, BarrierAlgorithm algorithm)
    : life_(group.life),
      group_(group),
      generation_(group.generation),
      ranks_(ranks.begin(), ranks.end()),
      algorithm_(algorithm == BarrierAlgorithm::automatic ? choose(group.members) : algorithm),
      tag_(make_tag(ranks_, algorithm_)) {}

BarrierState::~BarrierState() {
  // The other ranks continue with steps that we have not made, and nobody can tell how far they
  // get. So the barrier fails.
  if (stage_ == Stage::entered && !unusable()) fail({.code = Errc::broken, .operation = kBarrier});
}

Result<void> BarrierState::plan() {
  const auto own = std::ranges::lower_bound(ranks_, group_.rank) - ranks_.begin();
  const auto steps = schedule(algorithm_, static_cast<std::uint32_t>(ranks_.size()),
                              static_cast<std::uint32_t>(own));
  moves_.reserve(steps.size());
  for (const Step& step : steps) {
    const Rank rank = ranks_[step.index];
    GroupPeer& peer = group_.peers[rank];
    if (peer.channel == nullptr)
      return std::unexpected(Error{.code = Errc::not_ready,
                                   .operation = kBarrier,
                                   .field = "not connected: connect() rank",
                                   .value = rank});
    const std::size_t at = kSlotBytes * rank;
    Move move{.notify = step.notify,
              .rank = rank,
              .peer = &peer,
              .word = reinterpret_cast<std::uint64_t*>(group_.outgoing.bytes().data() + at)};
    if (step.notify) {
      const auto slot = peer.slots.sub_region(kSlotBytes * group_.rank, sizeof(std::uint64_t));
      if (!slot) return refused(Errc::incompatible, "slots of rank", rank);
      const bool inlined = peer.channel->limits().max_inline_bytes >= sizeof(std::uint64_t);
      move.notice.emplace(
          Write<1>{group_.outgoing.gather(at, sizeof(std::uint64_t)), *slot, {.inlined = inlined}});
    }
    moves_.push_back(move);
  }
  return {};
}

std::optional<Error> BarrierState::unusable() const noexcept {
  if (life_->group == nullptr) return Error{.code = Errc::closed, .operation = kBarrier};
  if (group_.generation == generation_) return std::nullopt;
  return Error{.code = Errc::stale,
               .operation = kBarrier,
               .field = "generation",
               .value = generation_,
               .limit = group_.generation};
}

/// Whether a rank other than `own` is in both.
static bool overlap(std::span<const Rank> a, std::span<const Rank> b, Rank own) noexcept {
  return std::ranges::any_of(
      a, [&](Rank rank) { return rank != own && std::ranges::binary_search(b, rank); });
}

Result<void> BarrierState::may_enter() const {
  if (stage_ != Stage::idle)
    return refused(Errc::busy, "the last one is not over: wait()", group_.rank);
  for (const BarrierState* each = group_.open; each != nullptr; each = each->next_open_)
    if (overlap(ranks_, each->ranks_, group_.rank))
      return refused(Errc::busy, "another with some of these ranks is not over", group_.rank);
  if (!group_.is_out_of_step) [[likely]]
    return {};
  if (const auto gone = gone_member()) return std::unexpected(*gone);
  for (const Rank rank : ranks_) {
    if (!group_.peers[rank].out_of_step) continue;
    const Error& why = group_.why_out_of_step;
    if (is_peer_end(why)) return std::unexpected(why);
    return refused(Errc::broken, "an earlier barrier failed: regroup(); rank", rank);
  }
  return {};
}

Result<void> BarrierState::fence(Deadline deadline) {
  const Clock::time_point end =
      (deadline.kind() == Deadline::Kind::own ? Deadline{group_.timeout} : deadline)
          .end(Clock::now());
  for (Rank rank = 0; rank < group_.world; ++rank) {
    Channel* const channel = group_.peers[rank].channel;
    if (channel == nullptr || channel->cause()) continue;  // Its sends are over.
    if (const auto finished = channel->finish_sends(end); !finished) {
      Error error = finished.error();
      if (error != Errc::timed_out) return std::unexpected(error);
      return refused(Errc::timed_out, "fence: sends to rank", rank);
    }
  }
  return {};
}

Result<void> BarrierState::arrive(BarrierOptions options, Deadline deadline) {
  if (const auto reason = unusable()) [[unlikely]]
    return std::unexpected(*reason);
  if (stage_ != Stage::idle || group_.open != nullptr || group_.is_out_of_step) [[unlikely]]
    VERBATIM_TRY(may_enter());
  if (options.fence) VERBATIM_TRY(fence(deadline));
  stage_ = Stage::entered;
  if (moves_.empty()) return {};  // This rank is alone.
  next_ = 0;
  changes_ = 0;
  gone_.reset();
  next_open_ = std::exchange(group_.open, this);
  static_cast<void>(advance());  // wait() reports the outcome.
  return {};
}

BarrierState::Progress BarrierState::advance() noexcept {
  for (; next_ != moves_.size(); ++next_) {
    const Move& move = moves_[next_];
    if (move.notify) {
      if (const Progress sent = notify(move); sent != Progress::done) return sent;
      continue;
    }
    const Seen seen = seen_of(move);
    if (seen == Seen::not_yet) return Progress::waiting;
    if (seen == Seen::mismatch) [[unlikely]] {
      fail({.code = Errc::incompatible,
            .operation = kBarrier,
            .field = "other ranks or another algorithm at rank",
            .value = move.rank});
      return Progress::failed;
    }
    ++move.peer->awaited;
  }
  return Progress::done;
}

BarrierState::Progress BarrierState::notify(const Move& move) noexcept {
  if (suspicion_ || move.peer->channel == nullptr) [[unlikely]] {
    suspect(move.rank, {.code = Errc::closed, .operation = kBarrier}, Clock::now());
    return Progress::waiting;
  }
  *move.word = in_memory(make_flag(generation_, tag_, move.peer->sent + 1));
  ChannelState& channel = state_of(*move.peer->channel);
  // Nobody waits for the completion of a notice. Their slots are recovered when none is left.
  if (channel.sends.free == nullptr) group_.core->drain();
  const Ticket ticket = channel.post_unscoped(*move.notice, std::source_location::current());
  if (!ticket.refused()) [[likely]] {
    ++move.peer->sent;
    return Progress::done;
  }
  const Error error = ChannelCore::refusal(ticket.id);
  if (error != Errc::would_block) suspect(move.rank, channel.cause.value_or(error), Clock::now());
  return Progress::waiting;
}

void BarrierState::leave() noexcept {
  stage_ = Stage::idle;
  suspicion_.reset();
  if (is_reported_) report(BarrierReport::Stand::elsewhere);
  if (moves_.empty()) return;
  BarrierState** link = &group_.open;
  while (*link != this) link = &(*link)->next_open_;
  *link = next_open_;
}

void BarrierState::fail(const Error& error) noexcept {
  leave();
  stage_ = Stage::failed;
  failure_ = error;
  if (error == Errc::peer_closed)
    report(BarrierReport::Stand::failed, {static_cast<Rank>(error.value)});
  if (!std::exchange(group_.is_out_of_step, true)) group_.why_out_of_step = error;
  for (const Rank rank : ranks_)
    if (rank != group_.rank) group_.peers[rank].out_of_step = true;
}

BarrierResult BarrierState::take_failure() noexcept {
  stage_ = Stage::idle;
  return std::unexpected(BarrierError{.error = failure_});
}

bool BarrierState::ready() noexcept {
  if (stage_ != Stage::entered || unusable() || moves_.empty()) return true;
  const Clock::time_point now = Clock::now();
  look_after_channels(now);
  if (advance() != Progress::waiting) return true;
  heed_departures();
  return stage_ == Stage::failed || (suspicion_ && now - suspicion_->since >= group_.detect);
}

BarrierResult BarrierState::wait(Deadline deadline) {
  if (const auto reason = unusable()) [[unlikely]] {
    stage_ = Stage::idle;
    if (*reason == Errc::stale && is_reported_) report(BarrierReport::Stand::elsewhere);
    return std::unexpected(BarrierError{.error = *reason});
  }
  if (stage_ == Stage::failed) return take_failure();
  if (stage_ == Stage::idle)
    return std::unexpected(BarrierError{.error = {.code = Errc::not_ready,
                                                  .operation = kBarrier,
                                                  .field = "wait() without arrive()"}});
  const unsigned spins = group_.oversubscribed ? 1 : kSpins;
  for (unsigned turn = 0; turn < spins; ++turn) {
    const Progress progress = advance();
    if (progress == Progress::done) [[likely]] {
      leave();
      return {};
    }
    if (progress == Progress::failed) return take_failure();
    relax_processor();
  }
  return wait_long(deadline);
}

}  // namespace detail

Result<Barrier> Barrier::create(detail::Group& group, std::span<const Rank> ranks,
                                BarrierAlgorithm algorithm) {
  VERBATIM_TRY(detail::check_ranks(group, ranks));
  auto state = std::make_unique<detail::BarrierState>(group, ranks, algorithm);
  VERBATIM_TRY(state->plan());
  return Barrier{std::move(state)};
}

BarrierResult Barrier::operator()(Deadline deadline, BarrierOptions options) {
  detail::BarrierState& state = usable();
  if (const auto entered = state.arrive(options, deadline); !entered) [[unlikely]]
    return std::unexpected(BarrierError{.error = entered.error()});
  return state.wait(deadline);
}

Result<void> Barrier::arrive(BarrierOptions options) { return usable().arrive(options, {}); }
bool Barrier::ready() noexcept { return usable().ready(); }
BarrierResult Barrier::wait(Deadline deadline) { return usable().wait(deadline); }
std::span<const Rank> Barrier::ranks() const noexcept { return usable().ranks(); }
BarrierAlgorithm Barrier::algorithm() const noexcept { return usable().algorithm(); }

detail::BarrierState& Barrier::usable() const {
  check(state_ != nullptr, "Barrier: used after it was moved from");
  return *state_;
}

Barrier::Barrier(std::unique_ptr<detail::BarrierState> state) noexcept : state_(std::move(state)) {}
Barrier::Barrier(Barrier&&) noexcept = default;
Barrier& Barrier::operator=(Barrier&&) noexcept = default;
Barrier::~Barrier() = default;

}  // namespace verbatim
