// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The same cases with Debian's perftest (ib_write_lat and so on), both ends on this machine.
#include <string>
#include <string_view>

#include "measure/report.hpp"

namespace verbatim::cli {

struct PerftestOptions {
  std::string device;
  bool preloads = false;  ///< On the software device: through `verbatim preload`.
  int client_processor = -1;
  int server_processor = -1;
  Figures figures{};
  std::uint64_t count = 0;  ///< 0: enough for a figure.
};

/// Runs it. Throws Failure when it is not installed, fails, or takes too long.
[[nodiscard]] Rival run_perftest(const PerftestOptions& options, const Case& each);

/// The figures in what a latency, or a bandwidth, test prints; none where there are none.
[[nodiscard]] Rival parse_perftest(std::string_view output, bool is_latency);

}  // namespace verbatim::cli
