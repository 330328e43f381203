// SPDX-License-Identifier: MIT OR Apache-2.0
// The local half of an endpoint: its port, addresses and partition.
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/random.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/address_vector.hpp"
#include "verbs/queue_pair_object.hpp"

namespace verbatim::detail {
namespace {

/// A GID of an interface that is down cannot be reached. If the state is unknown, assume up.
bool interface_is_up(std::uint32_t index) {
  ifreq request{};
  if (index == 0 || if_indextoname(index, request.ifr_name) == nullptr) return true;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const bool asked = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  close(fd);
  return !asked || (request.ifr_flags & IFF_UP) != 0;
}

/// Smaller is better. This is the order in which negotiate() prefers them.
int rank(const GidEntry& entry) noexcept {
  if (entry.type != GidType::roce_v2) return 3;
  if (entry.gid.is_ipv4_mapped()) return 0;
  return entry.gid.is_link_local() ? 2 : 1;
}

/// The verbs use "IB" for both InfiniBand and RoCE v1. The link layer tells them apart.
GidType type_on(LinkLayer layer, GidType type) noexcept {
  if (layer == LinkLayer::infiniband) return GidType::infiniband;
  return type == GidType::infiniband ? GidType::roce_v1 : type;
}

}  // namespace

Result<Port> choose_port(const ContextState& context, const RouteOptions& route) {
  if (route.port) {
    const Port port = VERBATIM_TRY(context.query_port(*route.port));
    if (port.state == PortState::active) return port;
    return std::unexpected(Error{.code = Errc::not_ready,
                                 .operation = "ibv_query_port",
                                 .field = "port",
                                 .value = port.number}
                               .with_text(to_string(port.state)));
  }
  Result<Port> first = context.query_port(1);
  for (std::uint8_t number = 1; number <= context.capabilities.port_count; ++number) {
    const Port port = VERBATIM_TRY(context.query_port(number));
    if (port.state == PortState::active) return port;
  }
  if (!first) return first;
  return std::unexpected(
      Error{.code = Errc::not_ready, .operation = "ibv_query_port", .field = "port", .value = 1}
          .with_text(to_string(first->state)));
}

Result<std::vector<Endpoint::CandidateGid>> candidate_gids(const ContextState& context,
                                                           const Port& port,
                                                           const RouteOptions& route) {
  auto entries = VERBATIM_TRY(context.query_gid_table(port.number));
  std::erase_if(entries, [&](const GidEntry& entry) {
    return (route.gid_index && entry.index != *route.gid_index) || entry.index > kMaxGidIndex ||
           !interface_is_up(entry.interface_index);
  });
  if (route.gid_index && entries.empty())
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = "ibv_query_gid_table",
                                 .field = "gid_index",
                                 .value = *route.gid_index,
                                 .limit = port.gid_count});
  if (port.link_layer == LinkLayer::ethernet && entries.empty())
    return std::unexpected(Error{.code = Errc::not_ready,
                                 .operation = "ibv_query_gid_table",
                                 .field = "port without a usable GID",
                                 .value = port.number});
  for (GidEntry& entry : entries) entry.type = type_on(port.link_layer, entry.type);
  std::ranges::sort(entries, {},
                    [](const GidEntry& entry) { return std::pair{rank(entry), entry.index}; });
  if (entries.size() > Endpoint::kMaxGids) entries.resize(Endpoint::kMaxGids);
  std::vector<Endpoint::CandidateGid> candidates;
  candidates.reserve(entries.size());
  for (const GidEntry& entry : entries) candidates.push_back({entry.gid, entry.index, entry.type});
  return candidates;
}

Result<PartitionChoice> choose_partition(const ContextState& context, const Port& port,
                                         const RouteOptions& route) {
  const auto keys = VERBATIM_TRY(context.query_partition_keys(port.number));
  const auto is_full = [](PartitionKey key) { return std::to_underlying(key) > 0x8000; };
  const auto is_used = [](PartitionKey key) { return (std::to_underlying(key) & 0x7fff) != 0; };
  auto found = route.partition_key ? std::ranges::find(keys, *route.partition_key)
                                   : std::ranges::find_if(keys, is_full);
  if (found == keys.end() && !route.partition_key) found = std::ranges::find_if(keys, is_used);
  if (found == keys.end())
    return std::unexpected(
        Error{.code = Errc::not_found,
              .operation = "ibv_query_pkey",
              .field = "partition_key",
              .value = route.partition_key ? std::to_underlying(*route.partition_key) : 0u});
  return PartitionChoice{*found, static_cast<std::uint16_t>(found - keys.begin())};
}

std::uint64_t random_nonce() noexcept {
  const std::uint64_t nonce = random_u64();
  return nonce != 0 ? nonce : 1;  // 0 means "none".
}

}  // namespace verbatim::detail
