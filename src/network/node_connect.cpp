// SPDX-License-Identifier: MIT OR Apache-2.0
// How the channels of a node are made. Endpoints travel through the session, and the peers do the
// same.
#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_codec.hpp"
#include "network/node_state.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/endpoint.hpp"

namespace verbatim::detail {
namespace {

/// Up to this many ranks, each rank connects to all others.
constexpr Rank kSmallWorld = 64;
constexpr std::uint32_t kMaxQpNumber = (1u << 24) - 1;

/// The part that differs between the endpoints of one rank. The rest goes to all peers once.
std::vector<std::byte> own_part(const Endpoint& endpoint) {
  ByteWriter writer;
  writer.put(static_cast<std::uint32_t>(endpoint.queue_pair));
  writer.put(endpoint.psn.value());
  writer.put(endpoint.nonce);
  return std::move(writer).take();
}

Result<Endpoint> endpoint_of(const PeerOffer& offer) {
  Endpoint endpoint = VERBATIM_TRY(decode_endpoint(offer.common));
  ByteReader reader{"endpoint of a rank", offer.own};
  endpoint.queue_pair =
      QpNumber{VERBATIM_TRY(reader.get_at_most<std::uint32_t>("queue_pair", kMaxQpNumber))};
  const auto psn = VERBATIM_TRY(reader.get<std::uint32_t>("psn"));
  endpoint.psn = VERBATIM_TRY(PacketSequenceNumber::from_value(psn));
  endpoint.nonce = VERBATIM_TRY(reader.get<std::uint64_t>("nonce"));
  return endpoint;
}

Error about(Error error, Rank rank) noexcept {
  return error.with_text("rank " + std::to_string(rank));
}

/// One bit for each rank.
using RankSet = std::vector<std::byte>;
void insert(RankSet& set, Rank rank) { set[rank / 8] |= std::byte{1} << (rank % 8); }
bool contains(const RankSet& set, Rank rank) {
  return rank / 8 < set.size() && (set[rank / 8] >> (rank % 8) & std::byte{1}) != std::byte{0};
}

}  // namespace

std::vector<Rank> NodeState::present() const {
  std::vector<Rank> ranks;
  for (const Member& member : group->members)
    if (member.present) ranks.push_back(member.rank);
  return ranks;
}

std::vector<Rank> NodeState::wanted() const {
  std::vector<Rank> all = present();
  Connect connect = options.connect;
  if (connect == Connect::automatic)
    connect = all.size() <= kSmallWorld ? Connect::all : Connect::partners;
  if (connect == Connect::none) return {};
  if (connect == Connect::all) {
    std::erase(all, group->rank);
    return all;
  }
  const auto own = static_cast<std::uint32_t>(std::ranges::find(all, group->rank) - all.begin());
  const BarrierAlgorithm algorithm =
      options.barrier == BarrierAlgorithm::automatic ? choose(group->members) : options.barrier;
  std::vector<Rank> ranks;
  for (const std::uint32_t each : partners(algorithm, static_cast<std::uint32_t>(all.size()), own))
    ranks.push_back(all[each]);
  return ranks;
}

Result<void> NodeState::connect_to(std::span<const Rank> ranks, const TimeLeft& left) {
  if (ranks.empty()) return {};
  std::vector<PreparedChannel> prepared;
  std::vector<PeerRecord> own;
  prepared.reserve(ranks.size());
  for (const Rank rank : ranks) {
    prepared.push_back(VERBATIM_TRY(multi.prepare()));
    own.push_back({rank, own_part(prepared.back().endpoint())});
  }
  const auto offers =
      VERBATIM_TRY(session->offer(encode(prepared.front().endpoint()), own, left()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto endpoint = endpoint_of(offers[i]);
    if (!endpoint) return std::unexpected(about(endpoint.error(), ranks[i]));
    auto channel = std::move(prepared[i]).connect(*endpoint);
    if (!channel) return std::unexpected(about(channel.error(), ranks[i]));
    const Canceller canceller = channel->canceller();
    VERBATIM_TRY(multi.put(ranks[i], std::move(*channel)));
    group->peers[ranks[i]].channel = &multi[ranks[i]];
    news->watch(ranks[i], canceller);
  }
  return {};
}

Result<void> NodeState::connect(std::span<const Rank> ranks, Timeout limit) {
  const TimeLeft left{limit};
  std::vector<Rank> fresh;
  for (const Rank rank : ranks) {
    if (rank >= group->world || rank == group->rank || !group->members[rank].present)
      return std::unexpected(Error{.code = Errc::invalid_argument,
                                   .operation = "Node::connect",
                                   .field = "rank",
                                   .value = rank,
                                   .limit = group->world - 1});
    if (group->peers[rank].channel == nullptr) fresh.push_back(rank);
  }
  std::ranges::sort(fresh);
  fresh.erase(std::ranges::unique(fresh).begin(), fresh.end());
  const auto connected = [&]() -> Result<void> {
    VERBATIM_TRY(connect_to(fresh, left));
    if (fresh.empty()) return {};
    std::vector<PeerRecord> ready;
    for (const Rank rank : fresh) {
      const ReadyRecord record = multi[rank].ready_record();
      ready.push_back({rank, {record.begin(), record.end()}});
    }
    const auto theirs = VERBATIM_TRY(session->offer({}, ready, left()));
    for (const PeerOffer& each : theirs)
      if (const auto is_ready = multi[each.rank].confirm(each.own); !is_ready)
        return std::unexpected(about(is_ready.error(), each.rank));
    return {};
  }();
  if (!connected)
    for (const Rank rank : fresh) disconnect(rank);
  return connected;
}

Result<void> NodeState::reconnect(const TimeLeft& left) {
  const std::vector<Rank> ours = wanted();  // Sorted.
  RankSet broken((group->world + 7) / 8);
  for (Rank rank = 0; rank < group->world; ++rank) {
    const Channel* const channel = group->peers[rank].channel;
    const bool is_wanted = channel != nullptr || std::ranges::binary_search(ours, rank);
    if (is_wanted && (channel == nullptr || channel->cause())) insert(broken, rank);
  }
  // One end may have failed without the other end noticing, so either of them may ask.
  const auto all = VERBATIM_TRY(session->exchange(broken, left()));
  std::vector<Rank> fresh;
  for (const Rank rank : present()) {
    if (rank == group->rank) continue;
    if (!contains(broken, rank) && !contains(all[rank], group->rank)) continue;
    disconnect(rank);
    fresh.push_back(rank);
  }
  return connect_to(fresh, left);
}

void NodeState::disconnect(Rank rank) noexcept {
  if (group->peers[rank].channel == nullptr) return;
  news->forget(rank);
  group->peers[rank].channel = nullptr;
  auto channel = multi.remove(rank);
  if (!channel) return;
  // From here on nothing can land: the queue pair has provably stopped, or is destroyed.
  channel->cancel();
  [[maybe_unused]] const auto closed = channel->close();
}

}  // namespace verbatim::detail
