// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "verbatim/base/try.hpp"
#include "verbatim/network/network_config.hpp"

namespace verbatim {
namespace {

Error wrong(const char* field, std::uint64_t value, std::string_view what) noexcept {
  return Error{
      .code = Errc::invalid_argument, .operation = "network config", .field = field, .value = value}
      .with_text(what);
}

}  // namespace

RawNetworkConfig& RawNetworkConfig::add_node(NodeConfig node) {
  nodes_.push_back(std::move(node));
  return *this;
}

RawNetworkConfig& RawNetworkConfig::truncate(std::size_t count) {
  if (count < nodes_.size()) nodes_.resize(count);
  return *this;
}

Result<NetworkConfig> RawNetworkConfig::build() const {
  std::vector<NodeConfig> nodes = nodes_;
  std::ranges::sort(nodes, {}, &NodeConfig::rankid);
  if (nodes.empty()) return std::unexpected(wrong("hosts", 0, "there are none"));
  if (nodes[0].rankid != 0)
    return std::unexpected(wrong("rankid", nodes[0].rankid, "the first is not 0"));
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const Rank rank = nodes[i].rankid;
    if (rank == nodes[i - 1].rankid) return std::unexpected(wrong("rankid", rank, "there twice"));
    if (rank != i) return std::unexpected(wrong("rankid", i, "missing"));
  }
  return NetworkConfig{std::move(nodes)};
}

Result<NetworkConfig> load_network_config(const std::string& path) {
  const auto raw = VERBATIM_TRY(RawNetworkConfig::load(path));
  return raw.build();
}

}  // namespace verbatim
