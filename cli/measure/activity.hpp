// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What RDMA devices and the processes on the software device do at a moment, and since.
#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/counters.hpp"
#include "terminal.hpp"
#include "verbatim/soft/inspect.hpp"

namespace verbatim::cli {

struct Activity {
  std::chrono::steady_clock::time_point when;
  std::vector<PortCounters> ports;
  soft::Inspection soft;
  std::map<pid_t, std::string> commands;  ///< What the system calls a process.
  std::map<pid_t, double> ages_s;
};

/// Now. Throws Failure where the software device's directory cannot be read.
[[nodiscard]] Activity look_around();

struct ViewOptions {
  bool queue_pairs = false;  ///< A line for each.
};

/// The lines of a view, none longer than `columns`; rates since `before`, where there is one.
[[nodiscard]] std::vector<std::string> view_of(const Activity& now, const Activity* before,
                                               const ViewOptions& options, unsigned columns);
[[nodiscard]] nlohmann::json to_json(const Activity& now, const Activity* before);

}  // namespace verbatim::cli
