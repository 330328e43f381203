// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/barrier_world.hpp"

#include <sys/eventfd.h>

#include <cstdlib>
#include <numeric>
#include <thread>

#include "support/require.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {
namespace {

Context open_one() {
  const char* const name = std::getenv("VERBATIM_DEVICE");
  return require(open_device(name != nullptr ? name : "soft0"));
}

}  // namespace

// ---- The session --------------------------------------------------------------------------------

void FakeCoordinator::depart(Departure departure) {
  {
    const std::lock_guard lock{mutex_};
    departures_.push_back(departure);
    ++changes_;
    for (const FakeSession* each : sessions_) eventfd_write(each->fd(), 1);
  }
  departed_.notify_all();
}

void FakeCoordinator::begin() {
  const std::lock_guard lock{mutex_};
  departures_.clear();
}

FakeSession::FakeSession(FakeCoordinator& coordinator, Rank rank)
    : coordinator_(coordinator), rank_(rank), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const std::lock_guard lock{coordinator_.mutex_};
  coordinator_.sessions_.push_back(this);
}

void FakeSession::answer() {
  const std::lock_guard lock{coordinator_.mutex_};
  coordinator_.reports_[rank_].emplace();
}

std::uint32_t FakeSession::changes() const noexcept {
  if (on_look) on_look();
  return coordinator_.changes_.load(std::memory_order_relaxed);
}

std::vector<Departure> FakeSession::departures() const {
  const std::lock_guard lock{coordinator_.mutex_};
  eventfd_t count = 0;
  eventfd_read(event_.get(), &count);
  return coordinator_.departures_;
}

Result<Departure> FakeSession::verdict(Timeout limit) {
  ++verdicts;
  std::unique_lock lock{coordinator_.mutex_};
  if (coordinator_.departed_.wait_for(lock, limit,
                                      [&] { return !coordinator_.departures_.empty(); }))
    return coordinator_.departures_.front();
  return std::unexpected(Error{.code = Errc::timed_out, .operation = "verdict"});
}

void FakeSession::report(std::span<const std::byte> state) {
  ++reports;
  const std::lock_guard lock{coordinator_.mutex_};
  coordinator_.reports_[rank_].emplace(state.begin(), state.end());
}

Result<std::vector<std::byte>> FakeSession::ask(Rank rank, Timeout) {
  const std::lock_guard lock{coordinator_.mutex_};
  ++questions;  // Under the lock: a rank that sees it reports after this answer.
  if (const auto& report = coordinator_.reports_[rank]) return *report;
  return std::unexpected(Error{.code = Errc::timed_out, .operation = "ask"});
}

// ---- Ranks --------------------------------------------------------------------------------------

WorldRank::WorldRank(Context context, Rank own, Rank world)
    : rank(own),
      domain(require(context.allocate_domain())),
      reactor(require(Reactor::create(domain))),
      prepared(world),
      channels(world),
      group(require(detail::Group::create(domain, reactor, own, world))) {}

void WorldRank::prepare(const ChannelOptions& options) {
  ChannelOptions here = options;
  here.on = reactor;
  for (Rank to = 0; to < prepared.size(); ++to)
    if (to != rank) prepared[to].emplace(require(PreparedChannel::create(domain, here)));
}

void WorldRank::connect(WorldRank& other) {
  const Endpoint ours = prepared[other.rank]->endpoint();
  const Endpoint theirs = other.prepared[rank]->endpoint();
  channels[other.rank].emplace(require(std::move(*prepared[other.rank]).connect(theirs)));
  other.channels[rank].emplace(require(std::move(*other.prepared[rank]).connect(ours)));
  group->peers[other.rank].channel = &*channels[other.rank];
  group->peers[other.rank].slots = other.group->slots.remote();
  other.group->peers[rank].channel = &*other.channels[rank];
  other.group->peers[rank].slots = group->slots.remote();
}

Barrier WorldRank::barrier(std::span<const Rank> ranks, BarrierAlgorithm algorithm) {
  return require(Barrier::create(*group, ranks, algorithm));
}

void WorldRank::flush() {
  for (auto& each : channels)
    if (each) require(each->finish_sends(kLong));
}

World::World(Rank size, const WorldOptions& options) : coordinator(size) {
  for (Rank rank = 0; rank < size; ++rank)
    ranks_.push_back(std::make_unique<WorldRank>(open_one(), rank, size));
  std::vector<Member> members;
  for (Rank rank = 0; rank < size; ++rank)
    members.push_back({.rank = rank, .processors = 2, .present = true});
  for (const auto& each : ranks_) {
    each->prepare(options.channel);
    each->group->members = members;
    each->group->oversubscribed = options.oversubscribed;
    each->group->detect = options.detect;
    each->group->timeout = kLong;
    if (!options.session) continue;
    each->session = std::make_unique<FakeSession>(coordinator, each->rank);
    each->session->answer();
    each->group->session = each->session.get();
  }
  for (Rank rank = 0; rank < size; ++rank)
    for (Rank other = rank + 1; other < size; ++other) ranks_[rank]->connect(*ranks_[other]);
}

void World::run(const std::function<void(WorldRank&)>& body) {
  std::vector<std::jthread> threads;
  threads.reserve(ranks_.size());
  for (const auto& each : ranks_) threads.emplace_back([&body, &each] { body(*each); });
}

std::vector<Rank> everyone(Rank size) {
  std::vector<Rank> ranks(size);
  std::iota(ranks.begin(), ranks.end(), Rank{0});
  return ranks;
}

}  // namespace verbatim::test
