// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The counters that the kernel keeps for RDMA devices and their ports.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace verbatim::cli {

struct PortCounters {
  std::string device{};
  unsigned port = 0;    ///< 0: of the device as a whole.
  std::string state{};  ///< "ACTIVE", or what the kernel says.
  std::map<std::string, std::uint64_t> values{};
};

/// Of all devices below `root`, in order. What cannot be read is left out.
[[nodiscard]] std::vector<PortCounters> read_counters(
    const std::string& root = "/sys/class/infiniband");

}  // namespace verbatim::cli
