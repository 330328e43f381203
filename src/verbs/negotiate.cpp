// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/negotiate.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "verbatim/base/try.hpp"

namespace verbatim {
namespace {

using Candidate = Endpoint::CandidateGid;

/// Only addresses of the same class can reach each other. Best first: IPv4 is routed almost
/// everywhere, a link-local address works on one link only, and RoCEv1 is not routed at all.
enum class GidClass : std::uint8_t {
  roce_v2_ipv4,
  roce_v2_ipv6,
  roce_v2_link_local,
  roce_v1_ipv4,
  roce_v1_ipv6,
  roce_v1_link_local,
  infiniband,
};

GidClass class_of(const Candidate& candidate) noexcept {
  using enum GidClass;
  if (candidate.type == GidType::infiniband) return infiniband;
  const bool v2 = candidate.type == GidType::roce_v2;
  if (candidate.gid.is_ipv4_mapped()) return v2 ? roce_v2_ipv4 : roce_v1_ipv4;
  if (candidate.gid.is_link_local()) return v2 ? roce_v2_link_local : roce_v1_link_local;
  return v2 ? roce_v2_ipv6 : roce_v1_ipv6;
}

/// The records hold no netmask, so this is a guess. It only serves to prefer one pair to another of
/// the same class. It compares the first 64 bits for IPv6 and InfiniBand, and the first 24 bits of
/// an IPv4 address.
bool same_subnet(const Gid& a, const Gid& b) noexcept {
  constexpr auto kPrefix = std::size_t{12 + 3};  // ::ffff: and three of the four bytes.
  if (a.is_ipv4_mapped() && b.is_ipv4_mapped())
    return std::equal(a.bytes.begin(), a.bytes.begin() + kPrefix, b.bytes.begin());
  return a.subnet_prefix() == b.subnet_prefix();
}

bool is_ethernet(const Endpoint& endpoint) noexcept {
  // Old InfiniBand drivers leave the link layer unspecified.
  return endpoint.link_layer == LinkLayer::ethernet;
}

/// Both sides must walk the candidates in the same order, so both must agree on which of them is
/// "first". Nonces are equal if a queue pair is connected to itself, or if the records were made by
/// hand. In that case the addresses decide. If those are equal too, either order gives the same
/// pair.
bool comes_first(const Endpoint& a, const Endpoint& b) noexcept {
  if (a.nonce != b.nonce) return a.nonce < b.nonce;
  return std::ranges::lexicographical_compare(
      a.gids, b.gids, [](const Candidate& x, const Candidate& y) {
        return std::tie(x.index, x.gid, x.type) < std::tie(y.index, y.gid, y.type);
      });
}

struct GidPair {
  const Candidate* local;
  const Candidate* peer;
  bool same_subnet;
};

/// Returns the best pair, in an order that is the same on both sides. Empty if no pair can talk.
std::optional<GidPair> choose_pair(const Endpoint& local, const Endpoint& peer) noexcept {
  const bool local_first = comes_first(local, peer);
  const auto order = [local_first](const GidPair& pair) {
    const Candidate& first = local_first ? *pair.local : *pair.peer;
    const Candidate& second = local_first ? *pair.peer : *pair.local;
    // The addresses come last, because they matter only if a record repeats an index.
    return std::tuple{class_of(first), !pair.same_subnet, first.index,
                      second.index,    first.gid,         second.gid};
  };
  const auto usable = [&](const Candidate& candidate) {
    const bool roce = candidate.type != GidType::infiniband;
    return !candidate.gid.is_zero() && roce == is_ethernet(local);
  };

  std::optional<GidPair> best;
  for (const Candidate& ours : local.gids) {
    for (const Candidate& theirs : peer.gids) {
      if (!usable(ours) || !usable(theirs) || class_of(ours) != class_of(theirs)) continue;
      const GidPair pair{&ours, &theirs, same_subnet(ours.gid, theirs.gid)};
      if (!best || order(pair) < order(*best)) best = pair;
    }
  }
  return best;
}

/// In the error, `value` is ours and `limit` is the peer's.
Error incompatible(const char* field, std::uint64_t ours, std::uint64_t theirs) noexcept {
  return {.code = Errc::incompatible,
          .operation = "negotiate",
          .field = field,
          .value = ours,
          .limit = theirs};
}

template <class E>
Error differ(const char* field, E ours, E theirs) noexcept {
  return incompatible(field, std::to_underlying(ours), std::to_underlying(theirs));
}

/// An adapter and the kernel's software device speak the same protocol on the same network. The
/// built-in device has a separate fabric.
bool can_meet(Transport a, Transport b) noexcept {
  return (a == Transport::soft) == (b == Transport::soft);
}

bool share_partition(PartitionKey a, PartitionKey b) noexcept {
  constexpr unsigned kFullMember = 0x8000;
  const unsigned ours = std::to_underlying(a);
  const unsigned theirs = std::to_underlying(b);
  const bool same = ((ours ^ theirs) & ~kFullMember) == 0;
  const bool valid = (ours & ~kFullMember) != 0;  // Partition 0 does not exist.
  return same && valid && ((ours | theirs) & kFullMember) != 0;
}

Result<void> check_compatible(const Endpoint& local, const Endpoint& peer) noexcept {
  if (local.type != peer.type) return std::unexpected(differ("type", local.type, peer.type));
  if (!can_meet(local.transport, peer.transport))
    return std::unexpected(differ("transport", local.transport, peer.transport));
  if (local.fabric_id != peer.fabric_id)
    return std::unexpected(incompatible("fabric_id", local.fabric_id, peer.fabric_id));
  if (is_ethernet(local) != is_ethernet(peer))
    return std::unexpected(differ("link_layer", local.link_layer, peer.link_layer));
  if (!share_partition(local.partition_key, peer.partition_key))
    return std::unexpected(differ("partition_key", local.partition_key, peer.partition_key));
  return {};
}

AckTimeout longer(AckTimeout a, AckTimeout b) noexcept {
  if (!a.duration() || !b.duration()) return AckTimeout::unlimited();
  return *a.duration() < *b.duration() ? b : a;
}

}  // namespace

Result<Path> choose_path(const Endpoint& local, const Endpoint& peer) {
  VERBATIM_TRY(check_compatible(local, peer));
  const auto pair = choose_pair(local, peer);
  // Without a pair, nothing shows that the subnets differ. In that case only a port can require the
  // header.
  const bool across_subnets = pair && !pair->same_subnet;
  Path path;
  path.global = is_ethernet(local) || local.grh_required || peer.grh_required || across_subnets;
  path.remote_lid = is_ethernet(local) ? Lid{} : peer.lid;
  if (!path.global) {
    // Checks both LIDs, so that both sides refuse.
    if (local.lid == Lid{} || peer.lid == Lid{})
      return std::unexpected(differ("lid", local.lid, peer.lid));
    return path;
  }

  if (!pair) return std::unexpected(incompatible("gid", local.gids.size(), peer.gids.size()));
  path.remote_gid = pair->peer->gid;
  path.local_gid_index = pair->local->index;
  path.gid_type = pair->local->type;
  return path;
}

Result<Agreement> negotiate(const Endpoint& local, const Endpoint& peer) {
  Agreement agreement;
  agreement.path = VERBATIM_TRY(choose_path(local, peer));
  agreement.remote_queue_pair = peer.queue_pair;
  agreement.send_psn = local.psn;
  agreement.receive_psn = peer.psn;
  agreement.mtu = std::min(local.mtu, peer.mtu);
  agreement.max_message_bytes = std::min(local.max_message_bytes, peer.max_message_bytes);
  agreement.ack_timeout = longer(local.ack_timeout, peer.ack_timeout);
  agreement.remote_nonce = peer.nonce;
  // Only a reliable connection has responses, and therefore reads and atomics.
  if (local.type == QueuePairType::reliable_connection) {
    agreement.max_read_atomic = std::min(local.read_atomic_initiator, peer.read_atomic_responder);
    agreement.max_dest_read_atomic =
        std::min(local.read_atomic_responder, peer.read_atomic_initiator);
    agreement.atomics = local.atomics && peer.atomics && agreement.max_read_atomic > 0;
  }
  return agreement;
}

}  // namespace verbatim
