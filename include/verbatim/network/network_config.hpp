// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The ranks of a job as listed in a file, and where rank 0 can be reached.
///
///     { "hosts": [ {"hostname": "node-a", "port": 7000, "ibdev": "mlx5_0", "rankid": 0},
///                  {"hostname": "node-b", "port": 7000, "ibdev": "mlx5_1", "rankid": 1,
///                   "comment": "second rack"} ] }
///
/// A raw configuration is what the file says. build() makes a NetworkConfig from it, in which ranks
/// run from 0 without a gap. Values: any thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim {

struct NodeConfig {
  std::string hostname;  ///< A name or an address. For rank 0, all others must be able to reach it.
  std::uint16_t port = 0;    ///< For rank 0, the coordinator's. Unused for others.
  std::string ibdev;         ///< The RDMA device of this rank (Identity::device); may be empty.
  Rank rankid = 0;           ///< From 0, each once.
  std::string comment = {};  ///< For people.

  friend bool operator==(const NodeConfig&, const NodeConfig&) = default;
};

/// Sorted by rank, rank r at [r]; at least one.
class NetworkConfig {
 public:
  [[nodiscard]] Rank world() const noexcept { return static_cast<Rank>(nodes_.size()); }
  [[nodiscard]] std::span<const NodeConfig> nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  /// `rank` is below world().
  [[nodiscard]] const NodeConfig& operator[](Rank rank) const noexcept { return nodes_[rank]; }
  [[nodiscard]] auto begin() const noexcept { return nodes_.begin(); }
  [[nodiscard]] auto end() const noexcept { return nodes_.end(); }

 private:
  friend class RawNetworkConfig;
  explicit NetworkConfig(std::vector<NodeConfig> nodes) noexcept : nodes_(std::move(nodes)) {}

  std::vector<NodeConfig> nodes_;
};

class RawNetworkConfig {
 public:
  /// Text of the wrong shape is `malformed` and names the key. Unknown keys are ignored.
  [[nodiscard]] static Result<RawNetworkConfig> from_json(std::string_view json);
  /// The same from a file. A missing file is `not_found`, with (the end of) its path.
  [[nodiscard]] static Result<RawNetworkConfig> load(const std::string& path);

  RawNetworkConfig& add_node(NodeConfig node);
  /// Keeps the first `count`, in the order of the file.
  RawNetworkConfig& truncate(std::size_t count);
  [[nodiscard]] std::span<const NodeConfig> nodes() const noexcept { return nodes_; }

  /// `invalid_argument` if there are no hosts ("hosts"), or for the first rank, in order, that is
  /// wrong ("rankid"): it does not start at zero, is there twice, or is missing.
  [[nodiscard]] Result<NetworkConfig> build() const;

 private:
  std::vector<NodeConfig> nodes_;
};

/// As in a file. Empty comments are left out.
[[nodiscard]] std::string to_json(const RawNetworkConfig& config);
[[nodiscard]] std::string to_json(const NetworkConfig& config);

/// load(), then build().
[[nodiscard]] Result<NetworkConfig> load_network_config(const std::string& path);

}  // namespace verbatim
