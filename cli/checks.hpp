// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What `verbatim doctor` looks at: each check is a pure function from a snapshot of the
/// machine to findings.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/system_state.hpp"
#include "device_report.hpp"
#include "finding.hpp"
#include "verbatim/soft/inspect.hpp"

namespace verbatim::cli {

/// The machine and this process, at one moment. Files below `system.root` are read by the checks;
/// what else has to be asked is here.
struct Snapshot {
  detail::System system{};
  std::uint32_t user = 0;
  DevicesReport devices{};
  std::string libibverbs_named{};        ///< What VERBATIM_LIBIBVERBS says, or "".
  std::optional<Error> soft_settings{};  ///< A VERBATIM_SOFT… variable that is wrong.
  bool soft_directory_named = false;     ///< VERBATIM_SOFT_DIR is set.
  bool soft_may_be_traced = false;       ///< VERBATIM_SOFT_PTRACE=any.
  /// Before this process opened the device.
  std::vector<soft::InspectedProcess> soft_processes{};
  std::optional<detail::Space> soft_space{};  ///< Of the directory's file system.
};

/// Asks the machine.
[[nodiscard]] Snapshot take_snapshot();

// Limits of the process and the machine.
[[nodiscard]] Findings check_memlock(const Snapshot& snapshot);
[[nodiscard]] Findings check_descriptors(const Snapshot& snapshot);
[[nodiscard]] Findings check_huge_pages(const Snapshot& snapshot);
[[nodiscard]] Findings check_numa(const Snapshot& snapshot);
[[nodiscard]] Findings check_container(const Snapshot& snapshot);

// The kernel's part and rdma-core.
[[nodiscard]] Findings check_modules(const Snapshot& snapshot);
[[nodiscard]] Findings check_nodes(const Snapshot& snapshot);
[[nodiscard]] Findings check_libraries(const Snapshot& snapshot);

// Devices.
[[nodiscard]] Findings check_choice(const Snapshot& snapshot);
[[nodiscard]] Findings check_open(const Snapshot& snapshot);
[[nodiscard]] Findings check_ports(const Snapshot& snapshot);
[[nodiscard]] Findings check_gids(const Snapshot& snapshot);
[[nodiscard]] Findings check_mtu(const Snapshot& snapshot);

// The software device.
[[nodiscard]] Findings check_soft_settings(const Snapshot& snapshot);
[[nodiscard]] Findings check_soft_directory(const Snapshot& snapshot);
[[nodiscard]] Findings check_soft_space(const Snapshot& snapshot);
[[nodiscard]] Findings check_soft_leftovers(const Snapshot& snapshot);
[[nodiscard]] Findings check_soft_ptrace(const Snapshot& snapshot);

/// All of them, in the order in which they are told.
[[nodiscard]] Findings check_everything(const Snapshot& snapshot);

/// A device of the kernel is there: hardware, Soft-RoCE.
[[nodiscard]] bool has_kernel_device(const Snapshot& snapshot);
/// What explain() says of it, in one line: without the error itself.
[[nodiscard]] std::string causes_of(const Snapshot& snapshot, const Error& error);
/// "a, b".
[[nodiscard]] std::string joined(std::span<const std::string> names);

}  // namespace verbatim::cli
