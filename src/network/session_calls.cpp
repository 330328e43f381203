// SPDX-License-Identifier: MIT OR Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <string>
#include <utility>

#include "channel/socket_address.hpp"
#include "network/session.hpp"
#include "verbatim/base/try.hpp"

// The calls of an Exchanger. The session's thread is in session.cpp.

namespace verbatim::detail {
namespace {

using namespace std::chrono_literals;

/// How long a call that timed out waits for the names of the missing ranks.
constexpr auto kNamesTimeout = 250ms;

/// The ranks as "1,5,9", as far as they fit.
std::string list_of(const std::vector<Rank>& ranks, std::uint32_t count) {
  constexpr std::size_t kRoom = sizeof Error{}.text - 1 - 4;
  std::string text;
  std::size_t shown = 0;
  for (const Rank rank : ranks) {
    const std::string next = (text.empty() ? "" : ",") + std::to_string(rank);
    if (text.size() + next.size() > kRoom) break;
    text += next;
    ++shown;
  }
  return shown < count ? text + ",..." : text;
}

}  // namespace

void Session::send(Bytes plaintext) {
  asio::post(loop_, [this, bytes = std::move(plaintext)] { connection_->send(bytes); });
}

/// Waits until `condition` holds. Returns false if the time or the session is over first.
template <class Condition>
bool Session::await(Lock& lock, Clock::time_point deadline, Condition condition) {
  changed_.wait_until(lock, deadline, [&] { return condition() || over_; });
  return condition();
}

Error Session::over(const char* operation) const noexcept {
  Error error = *over_;
  error.operation = operation;
  return error;
}

Result<void> Session::usable(const char* operation) const {
  if (over_) return std::unexpected(over(operation));
  if (said_bye_) return std::unexpected(Error{.code = Errc::closed, .operation = operation});
  return {};
}

/// A time-out error that names the missing ranks.
Error Session::late(Lock& lock, Call call, const char* operation) {
  Error error{.code = Errc::timed_out, .operation = operation, .field = "ranks missing"};
  const std::uint32_t token = ++token_;
  send(encode(WhoIsMissingMessage{.call = call, .token = token}));
  const auto told = [&] { return missing_ && missing_->token == token; };
  if (!await(lock, Clock::now() + kNamesTimeout, told)) return over_ ? over(operation) : error;
  error.value = missing_->count;
  return error.with_text(list_of(missing_->first, missing_->count));
}

void Session::adopt_members() {
  generation_ = next_members_->generation;
  members_ = std::move(next_members_->members);
  next_members_.reset();
}

Result<void> Session::wait_for_everybody(Clock::time_point deadline) {
  constexpr const char* kOperation = "Exchanger::join";
  Lock lock{mutex_};
  const bool told =
      await(lock, deadline, [this] { return next_members_.has_value() || join_failed_; });
  if (next_members_) {
    adopt_members();
    return {};
  }
  if (told) return std::unexpected(failure_of(*join_failed_, kOperation));
  if (over_) return std::unexpected(over(kOperation));
  const Error error = late(lock, Call::join, kOperation);
  send(encode(ByeMessage{}));  // Our leaving must not count as a loss.
  return std::unexpected(error);
}

Result<GatheredMessage> Session::collective(Call call, std::span<const std::byte> bytes,
                                            Timeout limit, const char* operation) {
  const auto deadline = deadline_after(limit);
  Lock lock{mutex_};
  VERBATIM_TRY(usable(operation));
  if (regrouping_ || (collective_.call && *collective_.call != call))
    return std::unexpected(Error{.code = Errc::busy,
                                 .operation = operation,
                                 .field = "a call that timed out, and is not over"});
  if (!collective_.call) {
    collective_.call = call;
    send(encode(ContributionMessage{
        .call = call, .sequence = collective_.sequence, .bytes = {bytes.begin(), bytes.end()}}));
  }
  if (!await(lock, deadline, [this] { return collective_.gathered || collective_.failed; }))
    return std::unexpected(over_ ? over(operation) : late(lock, call, operation));
  Collective finished =
      std::exchange(collective_, Collective{.sequence = collective_.sequence + 1});
  if (finished.failed) return std::unexpected(failure_of(*finished.failed, operation));
  return *std::move(finished.gathered);
}

Result<std::vector<Bytes>> Session::exchange(std::span<const std::byte> bytes, Timeout limit) {
  constexpr const char* kOperation = "Exchanger::exchange";
  if (bytes.size() > kMaxExchangeBytes)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = kOperation,
                                 .field = "bytes",
                                 .value = bytes.size(),
                                 .limit = kMaxExchangeBytes});
  return VERBATIM_TRY(collective(Call::exchange, bytes, limit, kOperation)).by_rank;
}

Result<void> Session::meet(Timeout limit) {
  static_cast<void>(VERBATIM_TRY(collective(Call::meet, {}, limit, "Exchanger::meet")));
  return {};
}

namespace {

Result<std::vector<Rank>> check_offer(std::span<const std::byte> common,
                                      std::span<const PeerRecord> to, Rank world) {
  const auto refuse = [](Errc code, const char* field, std::uint64_t value, std::uint64_t most) {
    return std::unexpected(Error{.code = code,
                                 .operation = "Exchanger::offer",
                                 .field = field,
                                 .value = value,
                                 .limit = most});
  };
  if (common.size() > kMaxRecordBytes)
    return refuse(Errc::limit_exceeded, "common", common.size(), kMaxRecordBytes);
  std::vector<Rank> ranks;
  for (const PeerRecord& peer : to) {
    if (peer.rank >= world) return refuse(Errc::invalid_argument, "rank", peer.rank, world - 1);
    if (peer.bytes.size() > kMaxOwnBytes)
      return refuse(Errc::limit_exceeded, "own", peer.bytes.size(), kMaxOwnBytes);
    ranks.push_back(peer.rank);
  }
  std::vector<Rank> sorted = ranks;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return refuse(Errc::invalid_argument, "rank named twice", *twice, 0);
  return ranks;
}

}  // namespace

Result<std::vector<PeerOffer>> Session::offer(std::span<const std::byte> common,
                                              std::span<const PeerRecord> to, Timeout limit) {
  constexpr const char* kOperation = "Exchanger::offer";
  const auto deadline = deadline_after(limit);
  std::vector<Rank> ranks = VERBATIM_TRY(check_offer(common, to, world_));
  Lock lock{mutex_};
  VERBATIM_TRY(usable(kOperation));
  if (regrouping_ || (offer_.open && offer_.peers != ranks))
    return std::unexpected(Error{.code = Errc::busy,
                                 .operation = kOperation,
                                 .field = "a call that timed out, and is not over"});
  if (!offer_.open) {
    offer_.open = true;
    offer_.peers = std::move(ranks);
    send(encode(OfferMessage{.sequence = offer_.sequence,
                             .common = {common.begin(), common.end()},
                             .to = {to.begin(), to.end()}}));
  }
  if (!await(lock, deadline, [this] { return offer_.offers || offer_.failed; }))
    return std::unexpected(over_ ? over(kOperation) : late(lock, Call::offer, kOperation));
  OpenOffer finished = std::exchange(offer_, OpenOffer{.sequence = offer_.sequence + 1});
  if (finished.failed) return std::unexpected(failure_of(*finished.failed, kOperation));
  return std::move(finished.offers->from);
}

std::optional<Departure> Session::first_departure(bool losses_only) const {
  const auto found = std::ranges::find_if(departures_, [&](const Departure& each) {
    return !losses_only || each.why != Departed::left;
  });
  return found != departures_.end() ? std::optional{*found} : std::nullopt;
}

Result<Departure> Session::verdict(Timeout limit) {
  constexpr const char* kOperation = "Exchanger::verdict";
  Lock lock{mutex_};
  static_cast<void>(
      await(lock, deadline_after(limit), [this] { return first_departure(true).has_value(); }));
  for (const bool losses_only : {true, false})
    if (const auto first = first_departure(losses_only)) return *first;
  VERBATIM_TRY(usable(kOperation));
  return std::unexpected(Error{.code = Errc::timed_out, .operation = kOperation});
}

std::vector<Departure> Session::departures() {
  const std::lock_guard lock{mutex_};
  std::uint64_t unread = 0;
  static_cast<void>(read(news_.get(), &unread, sizeof unread));
  return departures_;
}

void Session::on_departure(std::function<void(const Departure&)> call) {
  asio::post(loop_, [this, listener = std::move(call)]() mutable {
    listener_ = std::move(listener);
    std::vector<Departure> known;
    {
      const std::lock_guard lock{mutex_};
      known = departures_;
    }
    for (const Departure& each : known)
      if (listener_) listener_(each);
  });
}

Result<void> Session::report(std::span<const std::byte> state) {
  if (state.size() > kMaxStateBytes)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = "Exchanger::report",
                                 .field = "state",
                                 .value = state.size(),
                                 .limit = kMaxStateBytes});
  const std::lock_guard lock{mutex_};
  report_.assign(state.begin(), state.end());
  return {};
}

Result<Bytes> Session::ask(Rank rank, Timeout limit) {
  constexpr const char* kOperation = "Exchanger::ask";
  if (rank >= world_)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = kOperation,
                                 .field = "rank",
                                 .value = rank,
                                 .limit = world_ - 1});
  const auto gone = [&] {
    const auto found = std::ranges::find(departures_, rank, &Departure::rank);
    return found != departures_.end() ? std::optional{*found} : std::nullopt;
  };
  Lock lock{mutex_};
  VERBATIM_TRY(usable(kOperation));
  const std::uint32_t token = ++token_;
  const auto told = [&] { return state_ && state_->token == token && state_->rank == rank; };
  if (members_[rank].present) {
    send(encode(AskMessage{.rank = rank, .token = token}));
    static_cast<void>(await(lock, deadline_after(limit), [&] { return told() || gone(); }));
  }
  if (told()) return std::move(state_->bytes);
  if (over_) return std::unexpected(over(kOperation));
  const auto departure = gone();
  if (!departure && members_[rank].present)
    return std::unexpected(
        Error{.code = Errc::timed_out, .operation = kOperation, .field = "rank", .value = rank});
  const bool left = departure && departure->why == Departed::left;
  return std::unexpected(Error{.code = left ? Errc::peer_closed : Errc::peer_lost,
                               .operation = kOperation,
                               .field = "rank",
                               .value = rank});
}

Result<void> Session::regroup(Timeout limit, Bytes record) {
  constexpr const char* kOperation = "Exchanger::regroup";
  const auto deadline = deadline_after(limit);
  if (record.size() > kMaxRecordBytes)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = kOperation,
                                 .field = "record",
                                 .value = record.size(),
                                 .limit = kMaxRecordBytes});
  Lock lock{mutex_};
  VERBATIM_TRY(usable(kOperation));
  if (!std::exchange(regrouping_, true))
    send(encode(RegroupMessage{.generation = generation_, .record = std::move(record)}));
  if (!await(lock, deadline, [this] { return next_members_.has_value(); }))
    return std::unexpected(over_ ? over(kOperation) : late(lock, Call::regroup, kOperation));
  adopt_members();
  regrouping_ = false;
  return {};
}

Result<void> Session::leave(Timeout limit) {
  constexpr const char* kOperation = "Exchanger::leave";
  const auto deadline = deadline_after(limit);
  Lock lock{mutex_};
  if (farewell_) return {};
  if (over_) return std::unexpected(over(kOperation));
  if (!std::exchange(said_bye_, true)) send(encode(ByeMessage{}));
  if (await(lock, deadline, [this] { return farewell_; })) return {};
  return std::unexpected(over_ ? over(kOperation) : late(lock, Call::leave, kOperation));
}

}  // namespace verbatim::detail
