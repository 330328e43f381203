// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/membership.hpp"

#include <algorithm>

#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

Error out_of_place(MessageKind kind) noexcept {
  return {.code = Errc::malformed,
          .operation = "session",
          .field = "kind",
          .value = static_cast<std::uint64_t>(kind)};
}

}  // namespace

Membership::Membership(Rank world, std::uint32_t detect_ms, MembershipOutput& output)
    : world_(world), detect_ms_(detect_ms), output_(output), seats_(world) {
  for (Rank rank = 0; rank < world; ++rank) seats_[rank].member.rank = rank;
}

std::optional<ClientId> Membership::holder(Rank rank) const noexcept {
  if (rank >= world_) return std::nullopt;
  if (const auto waiting = lobby_.find(rank); waiting != lobby_.end()) return waiting->second.first;
  return seats_[rank].client;
}

bool Membership::is_over() const noexcept { return generation_ != 0 && live().empty(); }

std::vector<Rank> Membership::live() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < world_; ++rank)
    if (seats_[rank].client) ranks.push_back(rank);
  return ranks;
}

void Membership::tell(Rank rank, Bytes plaintext) {
  tell_departures();  // The message may follow from them.
  if (seats_[rank].client) output_.send(*seats_[rank].client, std::move(plaintext));
}

void Membership::tell_all(const Bytes& plaintext) {
  for (Rank rank = 0; rank < world_; ++rank) tell(rank, plaintext);
}

Result<void> Membership::handle(ClientId client, std::span<const std::byte> plaintext) {
  const MessageKind kind = VERBATIM_TRY(kind_of(plaintext));
  const auto body = plaintext.subspan(1);
  const auto found = places_.find(client);
  if (kind == MessageKind::join) {
    if (found != places_.end()) return std::unexpected(out_of_place(kind));
    return handle_join(client, VERBATIM_TRY(decode<JoinMessage>(body)));
  }
  if (found == places_.end()) return std::unexpected(out_of_place(kind));
  Place& place = found->second;
  if (kind == MessageKind::ping) {
    output_.send(client, encode(PongMessage{}));
    return {};
  }
  if (kind == MessageKind::who_is_missing) {
    who_is_missing(client, place, VERBATIM_TRY(decode<WhoIsMissingMessage>(body)));
    return {};
  }
  if (kind == MessageKind::bye) {
    bye(client, place);
    return {};
  }
  // A client that has left may still answer a question that was on its way.
  if (place.kind == Place::Kind::leaver && kind == MessageKind::state) return {};
  if (place.kind != Place::Kind::seat || generation_ == 0)
    return std::unexpected(out_of_place(kind));
  return handle_of(place.rank, kind, body);
}

Result<void> Membership::handle_of(Rank rank, MessageKind kind, std::span<const std::byte> body) {
  switch (kind) {
    case MessageKind::contribution:
      return contribute(rank, VERBATIM_TRY(decode<ContributionMessage>(body)));
    case MessageKind::offer: return offer(rank, VERBATIM_TRY(decode<OfferMessage>(body)));
    case MessageKind::regroup: return regroup(rank, VERBATIM_TRY(decode<RegroupMessage>(body)));
    case MessageKind::ask: return ask(rank, VERBATIM_TRY(decode<AskMessage>(body)));
    case MessageKind::state: return state(rank, VERBATIM_TRY(decode<StateMessage>(body)));
    default: return std::unexpected(out_of_place(kind));
  }
}

// ---- Joining ------------------------------------------------------------------------------------

void Membership::refuse(ClientId client, const RefusedMessage& message) {
  output_.send(client, encode(message));
  output_.close(client);
}

bool Membership::refused(ClientId client, const JoinMessage& join) {
  if (join.world != world_)
    refuse(client, {.field = RefusedField::world, .value = join.world, .limit = world_});
  else if (join.rank >= world_)
    refuse(client, {.field = RefusedField::rank_beyond, .value = join.rank, .limit = world_ - 1});
  else if (algorithm_ && *algorithm_ != join.algorithm)
    refuse(client,
           {.field = RefusedField::algorithm, .value = join.algorithm, .limit = *algorithm_});
  else if (holder(join.rank))
    refuse(client, {.field = RefusedField::rank_taken, .value = join.rank, .limit = world_ - 1});
  else
    return false;
  return true;
}

Result<void> Membership::handle_join(ClientId client, const JoinMessage& join) {
  if (refused(client, join)) return {};
  if (generation_ == 0) {
    std::erase_if(lost_early_, [&](const Departure& each) { return each.rank == join.rank; });
    if (lost_early_.empty()) {
      heard_early_.clear();
    } else {
      heard_early_.insert(join.rank);
      output_.send(client,
                   encode(FailedMessage{.call = Call::join, .departure = lost_early_.front()}));
      output_.close(client);
      return {};
    }
  }
  algorithm_ = join.algorithm;
  output_.send(client, encode(WelcomeMessage{.detect_ms = detect_ms_}));
  if (generation_ == 0) {
    places_[client] = {join.rank, Place::Kind::seat};
    take_seat(client, join);
  } else {
    places_[client] = {join.rank, Place::Kind::lobby};
    lobby_[join.rank] = {client, join};
  }
  commit_if_all();
  return {};
}

void Membership::take_seat(ClientId client, const JoinMessage& join) {
  gave_up_.erase(join.rank);
  Seat& seat = seats_[join.rank];
  seat.client = client;
  seat.member = {.rank = join.rank,
                 .host_high = join.host_high,
                 .host_low = join.host_low,
                 .processors = join.processors,
                 .record = join.record,
                 .present = true};
}

/// A rank was lost before all had come, so the others need not wait.
void Membership::end_forming(Rank lost, Departed why) {
  // The end of its connection and the end of its process are one loss. The first report counts.
  if (std::ranges::none_of(lost_early_, [&](const Departure& each) { return each.rank == lost; }))
    lost_early_.push_back({lost, why});
  const Bytes failure =
      encode(FailedMessage{.call = Call::join, .departure = {.rank = lost, .why = why}});
  for (Seat& seat : seats_) {
    if (!seat.client) continue;
    const ClientId client = *std::exchange(seat.client, std::nullopt);
    places_.erase(client);
    heard_early_.insert(seat.member.rank);
    output_.send(client, failure);
    output_.close(client);
  }
  algorithm_.reset();
}

bool Membership::owes_the_loss() const noexcept {
  if (generation_ != 0 || lost_early_.empty()) return false;
  std::size_t lost_only = 0;
  for (const Departure& each : lost_early_) lost_only += !heard_early_.contains(each.rank);
  return heard_early_.size() + lost_only < world_;
}

bool Membership::give_up_forming() {
  if (generation_ != 0 || live().empty()) return false;
  Rank absent = 0;
  while (seats_[absent].client || gave_up_.contains(absent))
    if (++absent == world_) return false;
  end_forming(absent, Departed::silent);
  return true;
}

/// The first generation begins when every rank has come. A later one begins when every survivor has
/// asked for it.
void Membership::commit_if_all() {
  const std::vector<Rank> ranks = live();
  if (generation_ == 0 || ranks.empty()) {
    // Nobody survived. The processes that replace them form a world again when all have come.
    if (ranks.size() + lobby_.size() == world_) commit();
    return;
  }
  if (std::ranges::all_of(ranks, [this](Rank rank) { return seats_[rank].regroups; })) commit();
}

void Membership::commit() {
  tell_departures();  // They do not concern the new members.
  for (const auto& [rank, waiting] : std::exchange(lobby_, {})) {
    places_[waiting.first].kind = Place::Kind::seat;
    take_seat(waiting.first, waiting.second);
  }
  ++generation_;
  MembersMessage message{.generation = generation_};
  for (Seat& seat : seats_) {
    seat.regroups = false;
    seat.member.present = seat.client.has_value();
    if (!seat.member.present) seat.member = {.rank = seat.member.rank};
    message.members.push_back(seat.member);
  }
  round_.reset(world_, live());
  offers_.reset(world_);
  // Offers to a rank that is absent must fail at once.
  for (const Seat& seat : seats_)
    if (!seat.client) offers_.departed({seat.member.rank, Departed::connection_ended});
  tell_all(encode(message));
}

// ---- Calls --------------------------------------------------------------------------------------

Result<void> Membership::contribute(Rank rank, ContributionMessage&& message) {
  VERBATIM_TRY(round_.contribute(rank, std::move(message)));
  send_round_results();
  return {};
}

void Membership::send_round_results() {
  for (const Round::Answer& answer : round_.take_answers()) tell(answer.to, *answer.plaintext);
}

Result<void> Membership::offer(Rank rank, OfferMessage&& message) {
  VERBATIM_TRY(offers_.offer(rank, std::move(message)));
  send_offers();
  return {};
}

void Membership::send_offers() {
  for (OfferBook::Answer& answer : offers_.take_answers())
    tell(answer.to, std::move(answer.plaintext));
}

Result<void> Membership::regroup(Rank rank, RegroupMessage&& message) {
  Seat& seat = seats_[rank];
  if (message.generation != generation_)
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = "regroup",
                                 .field = "generation",
                                 .value = message.generation,
                                 .limit = generation_});
  if (!message.record.empty()) seat.member.record = std::move(message.record);
  seat.regroups = true;
  commit_if_all();
  return {};
}

Result<void> Membership::ask(Rank rank, const AskMessage& message) {
  if (message.rank >= world_)
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = "ask",
                                 .field = "rank",
                                 .value = message.rank,
                                 .limit = world_ - 1});
  // A rank that is gone does not answer. The rank that asks knows of that, or will soon.
  tell(message.rank, encode(AskMessage{.rank = rank, .token = message.token}));
  return {};
}

Result<void> Membership::state(Rank rank, StateMessage&& message) {
  if (message.rank >= world_)
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = "state",
                                 .field = "rank",
                                 .value = message.rank,
                                 .limit = world_ - 1});
  const Rank asker = std::exchange(message.rank, rank);
  tell(asker, encode(message));
  return {};
}

std::vector<Rank> Membership::missing(const Place& place, Call call) const {
  std::vector<Rank> ranks;
  switch (call) {
    case Call::exchange:
    case Call::meet: return round_.missing();
    case Call::offer:
      return place.kind == Place::Kind::seat && generation_ != 0 ? offers_.missing(place.rank)
                                                                 : ranks;
    case Call::leave: return live();
    case Call::join:
    case Call::regroup: break;
  }
  const std::vector<Rank> here = live();
  if (generation_ != 0 && !here.empty()) {  // The ranks that still have to regroup.
    for (const Rank rank : here)
      if (!seats_[rank].regroups) ranks.push_back(rank);
    return ranks;
  }
  for (Rank rank = 0; rank < world_; ++rank)
    if (!holder(rank)) ranks.push_back(rank);
  return ranks;
}

void Membership::who_is_missing(ClientId client, const Place& place,
                                const WhoIsMissingMessage& message) {
  MissingMessage answer{.token = message.token};
  std::vector<Rank> ranks = missing(place, message.call);
  answer.count = static_cast<std::uint32_t>(ranks.size());
  ranks.resize(std::min(ranks.size(), kMaxNamedMissing));
  answer.first = std::move(ranks);
  output_.send(client, encode(answer));
}

// ---- Going --------------------------------------------------------------------------------------

void Membership::tell_departures() {
  if (untold_.empty()) return;
  tell_all(encode(DepartedMessage{std::exchange(untold_, {})}));
}

void Membership::depart(Departure departure) {
  seats_[departure.rank].regroups = false;
  untold_.push_back(departure);
  if (departure.why != Departed::left)
    tell_departures();
  else if (untold_.size() == 1)
    output_.call_soon();
  round_.departed(departure);
  send_round_results();
  offers_.departed(departure);
  send_offers();
  farewell_if_over();  // Before the ranks in the lobby form a world again.
  commit_if_all();
}

void Membership::bye(ClientId client, Place& place) {
  const Place before = place;
  if (before.kind == Place::Kind::leaver) return;
  if (before.kind == Place::Kind::lobby || generation_ == 0) {
    // The rank gave up waiting, and nobody counts on it yet.
    if (before.kind == Place::Kind::lobby) {
      lobby_.erase(before.rank);
    } else {
      seats_[before.rank].client.reset();
      gave_up_.insert(before.rank);
    }
    places_.erase(client);
    output_.close(client);
    if (generation_ == 0 && live().empty()) algorithm_.reset();
    return;
  }
  place.kind = Place::Kind::leaver;
  seats_[before.rank].client.reset();
  depart({before.rank, Departed::left});
}

void Membership::farewell_if_over() {
  if (!is_over()) return;
  for (auto place = places_.begin(); place != places_.end();) {
    if (place->second.kind != Place::Kind::leaver) {
      ++place;
      continue;
    }
    output_.send(place->first, encode(FarewellMessage{}));
    output_.close(place->first);
    place = places_.erase(place);
  }
}

void Membership::never_comes(Rank rank) {
  // If the rank is connected, the end of its connection reports the loss.
  if (rank < world_ && generation_ == 0 && !seats_[rank].client)
    end_forming(rank, Departed::connection_ended);
}

void Membership::ended(ClientId client, Departed why) {
  const auto found = places_.find(client);
  if (found == places_.end()) return;
  const Place place = found->second;
  places_.erase(found);
  if (place.kind == Place::Kind::leaver) return;
  if (place.kind == Place::Kind::lobby) {
    lobby_.erase(place.rank);
    return;
  }
  seats_[place.rank].client.reset();
  if (generation_ == 0)
    end_forming(place.rank, why);
  else
    depart({place.rank, why});
}

}  // namespace verbatim::detail
