// SPDX-License-Identifier: MIT OR Apache-2.0
#include "checks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/environment.hpp"
#include "soft/shared/settings.hpp"

namespace verbatim::cli {

Snapshot take_snapshot() {
  Snapshot snapshot;
  snapshot.system = detail::System::current();
  snapshot.user = geteuid();
  snapshot.libibverbs_named = environment("VERBATIM_LIBIBVERBS", "");
  if (const auto settings = engine::check_settings(); !settings)
    snapshot.soft_settings = settings.error();
  snapshot.soft_directory_named = environment("VERBATIM_SOFT_DIR") != nullptr;
  snapshot.soft_may_be_traced = engine::may_be_traced();
  // Before a device is opened: that removes what the dead left.
  const std::string& directory = snapshot.system.soft_directory;
  if (auto found = soft::inspect()) snapshot.soft_processes = std::move(found->processes);
  snapshot.soft_space = detail::space_at(directory);
  if (!snapshot.soft_space)
    snapshot.soft_space = detail::space_at(std::filesystem::path{directory}.parent_path().string());
  snapshot.devices = report_devices();
  return snapshot;
}

Findings check_everything(const Snapshot& snapshot) {
  Findings all;
  for (const auto check :
       {check_choice, check_open, check_ports, check_gids, check_mtu, check_modules, check_nodes,
        check_libraries, check_memlock, check_descriptors, check_huge_pages, check_numa,
        check_container, check_soft_settings, check_soft_directory, check_soft_space,
        check_soft_leftovers, check_soft_ptrace})
    std::ranges::move(check(snapshot), std::back_inserter(all));
  return all;
}

bool has_kernel_device(const Snapshot& snapshot) {
  const auto names = detail::device_names(snapshot.system.root);
  return (names && !names->empty()) ||
         !std::ranges::all_of(snapshot.devices.devices, &DeviceReport::is_soft);
}

std::string causes_of(const Snapshot& snapshot, const Error& error) {
  std::istringstream text{detail::explain_on(snapshot.system, error)};
  std::string line;
  std::getline(text, line);
  std::string causes;
  while (std::getline(text, line)) {
    const std::size_t start = line.starts_with("  - ") ? 4 : 2;
    (causes += causes.empty() ? "" : "; ") += line.substr(std::min(start, line.size()));
  }
  return causes;
}

std::string joined(std::span<const std::string> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace verbatim::cli
