// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/network/node.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "network/node_state.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {
namespace detail {
namespace {

constexpr std::uint32_t kDepth = 16;
constexpr std::size_t kRegionBytes = 24;

ChannelOptions channel_options(const NodeOptions& chosen) {
  ChannelOptions options = chosen.channel;
  options.max_sends = options.max_sends.value_or(kDepth);
  options.max_receives = options.max_receives.value_or(kDepth);
  // The session knows which rank is gone. The device knows only that nobody answers.
  if (options.news_timeout.count() == 0) options.news_timeout = chosen.detect;
  return options;
}

Error differs(const char* field, Rank rank, std::uint64_t theirs, std::uint64_t ours) noexcept {
  return Error{.code = Errc::incompatible,
               .operation = "Node::join",
               .field = field,
               .value = theirs,
               .limit = ours}
      .with_text("rank " + std::to_string(rank));
}

}  // namespace

Timeout TimeLeft::operator()() const noexcept {
  return std::max<Timeout>(end_ - std::chrono::steady_clock::now(), Timeout::zero());
}

NodeState::NodeState(const ProtectionDomain& in, const Identity& who, const NodeOptions& chosen,
                     Reactor on, std::unique_ptr<Group> with)
    : domain(in),
      options(chosen),
      hosted(who.hosted),
      launcher(who.launcher),
      reactor(std::move(on)),
      group(std::move(with)),
      news(std::make_shared<PeerNews>(who.rank, who.world)),
      multi(reactor, domain, {.channel = channel_options(chosen), .absent = [this](Rank rank) {
                                return find(rank).error();
                              }}) {
  group->reactor = &reactor;
  group->timeout = chosen.channel.timeout;
  group->detect = chosen.detect;
}

NodeState::~NodeState() {
  everyone.reset();
  session.reset();
}

/// What the other ranks learn about us: where our slots are, and to whom we connect.
std::vector<std::byte> NodeState::record() const {
  std::vector<std::byte> bytes = encode(group->slots.remote());
  bytes.push_back(static_cast<std::byte>(options.connect));
  return bytes;
}

Result<void> NodeState::take_members() {
  const auto members = session->members();
  group->members.assign(members.begin(), members.end());
  group->oversubscribed = is_oversubscribed(members);
  for (const Member& member : members) {
    if (!member.present) continue;
    if (member.record.size() != kRegionBytes + 1)
      return std::unexpected(
          differs("record", member.rank, member.record.size(), kRegionBytes + 1));
    const auto slots =
        VERBATIM_TRY(decode_remote_memory(std::span{member.record}.first(kRegionBytes)));
    if (slots.length < kSlotBytes * group->world)
      return std::unexpected(
          differs("slots", member.rank, slots.length, kSlotBytes * group->world));
    if (const auto theirs = std::to_integer<std::uint8_t>(member.record.back());
        theirs != static_cast<std::uint8_t>(options.connect))
      return std::unexpected(
          differs("connect", member.rank, theirs, static_cast<std::uint8_t>(options.connect)));
    group->peers[member.rank].slots = slots;
  }
  return {};
}

/// A rank that ends because of a loss is itself reported as lost a moment later. The first loss is
/// the reason.
Error NodeState::reason_of(const Error& error) const {
  if (error != Errc::peer_lost) return error;
  for (const Departure& each : session->departures())
    if (each.why != Departed::left) return error_of(each);
  return error;
}

Result<void> NodeState::join(const Identity& identity) {
  const TimeLeft left{options.timeout};
  session = VERBATIM_TRY(
      Exchanger::join(identity, {.record = record(),
                                 .algorithm = static_cast<std::uint8_t>(options.barrier),
                                 .timeout = options.timeout,
                                 .detect = options.detect}));
  session->on_departure([told = news](const Departure& each) { told->tell(each); });
  view.emplace(*session);
  group->session = &*view;
  // In a generation after the first, we replace a rank that was lost.
  if (session->generation() > 1) group->begin_generation(session->generation());
  return begin(left);
}

Result<void> NodeState::begin(const TimeLeft& left) {
  const auto begun = [&]() -> Result<void> {
    VERBATIM_TRY(take_members());
    if (session->generation() == 1)
      VERBATIM_TRY(connect_to(wanted(), left));
    else  // A rank is new or was broken, so all have to agree on who connects.
      VERBATIM_TRY(reconnect(left));
    return session->meet(left());
  }();
  if (!begun) return std::unexpected(reason_of(begun.error()));
  return {};
}

Result<Channel*> NodeState::find(Rank rank) noexcept {
  if (rank >= group->world || rank == group->rank)
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = "Node::find",
                                 .field = "rank",
                                 .value = rank,
                                 .limit = group->world - 1});
  if (group->peers[rank].channel == nullptr)
    return std::unexpected(Error{.code = Errc::not_ready,
                                 .operation = "Node::find",
                                 .field = "rank: connect() was not called",
                                 .value = rank});
  return group->peers[rank].channel;
}

void NodeState::finish_sends(const TimeLeft& left) noexcept {
  for (const GroupPeer& peer : group->peers) {
    if (peer.channel == nullptr || peer.channel->cause()) continue;
    // If a peer does not take them, they are lost. A wait for that peer reports it.
    [[maybe_unused]] const auto finished = peer.channel->finish_sends(left());
  }
}

Result<void> NodeState::regroup(Timeout limit) {
  const TimeLeft left{limit};
  everyone.reset();
  for (const Departure& each : session->departures())
    if (each.rank < group->world && each.rank != group->rank) disconnect(each.rank);
  finish_sends(left);
  VERBATIM_TRY(session->regroup(left(), record()));
  news->begin_generation();
  for (const Member& member : session->members())  // Includes ranks that were replaced meanwhile.
    if (!member.present) disconnect(member.rank);
  group->begin_generation(session->generation());
  return begin(left);
}

Result<void> NodeState::leave(Timeout limit) {
  const TimeLeft left{limit};
  if (!has_left) finish_sends(left);
  has_left = true;
  VERBATIM_TRY(session->leave(left()));
  everyone.reset();
  for (Rank rank = 0; rank < group->world; ++rank) disconnect(rank);
  return {};
}

}  // namespace detail

Node::Node(std::unique_ptr<detail::NodeState> state) noexcept : state_(std::move(state)) {}
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

Result<Node> Node::join(const ProtectionDomain& domain, const Identity& identity,
                        const NodeOptions& options) {
  if (identity.rank >= identity.world)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "Node::join",
                                 .field = "rank",
                                 .value = identity.rank,
                                 .limit = identity.world == 0 ? 0 : identity.world - 1});
  if (identity.device && *identity.device != domain.context().device().name())
    return std::unexpected(Error{.code = Errc::incompatible,
                                 .operation = "Node::join",
                                 .field = "device: the job's configuration names another"}
                               .with_text(*identity.device));
  auto reactor = VERBATIM_TRY(Reactor::create(domain));
  auto group = VERBATIM_TRY(detail::Group::create(domain, reactor, identity.rank, identity.world));
  auto state = std::make_unique<detail::NodeState>(domain, identity, options, std::move(reactor),
                                                   std::move(group));
  VERBATIM_TRY(state->join(identity));
  return Node{std::move(state)};
}

Rank Node::rank() const noexcept { return state_->group->rank; }
Rank Node::world() const noexcept { return state_->group->world; }
std::uint32_t Node::generation() const noexcept { return state_->group->generation; }
std::span<const Member> Node::members() const noexcept { return state_->group->members; }

Channel& Node::operator[](LocatedIndex rank) const {
  const auto found = state_->find(static_cast<Rank>(rank.value));
  if (!found) [[unlikely]]
    contract_violated("Node: no channel to this rank", rank.value, world(), rank.where);
  return **found;
}
Result<Channel*> Node::find(Rank rank) const noexcept { return state_->find(rank); }
MultiChannel& Node::peers() const noexcept { return state_->multi; }
Reactor& Node::reactor() const noexcept { return state_->reactor; }
Exchanger& Node::session() const noexcept { return *state_->session; }

Result<void> Node::connect(std::span<const Rank> ranks, Timeout limit) {
  return state_->connect(ranks, limit);
}
Result<std::vector<std::vector<std::byte>>> Node::exchange(std::span<const std::byte> record,
                                                           Timeout limit) {
  return session().exchange(record, limit);
}

Result<Barrier> Node::make_barrier(std::span<const Rank> ranks, BarrierAlgorithm algorithm) const {
  return Barrier::create(*state_->group, ranks, algorithm);
}
BarrierResult Node::barrier(Deadline deadline, BarrierOptions options) const {
  if (!state_->everyone) {  // Created when first needed: without connections there is none.
    auto made = make_barrier(state_->present(), state_->options.barrier);
    if (!made) return std::unexpected(BarrierError{made.error(), {}});
    state_->everyone.emplace(std::move(*made));
  }
  return (*state_->everyone)(deadline, options);
}

std::vector<Departure> Node::departed() const { return session().departures(); }
Result<void> Node::regroup(Timeout limit) { return state_->regroup(limit); }
Result<void> Node::leave(Timeout limit) { return state_->leave(limit); }

}  // namespace verbatim
