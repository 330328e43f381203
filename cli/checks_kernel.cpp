// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel's part and rdma-core.
#include <fmt/format.h>

#include <algorithm>

#include "checks.hpp"

namespace verbatim::cli {
namespace {

using Names = std::vector<std::string>;

Names kernel_devices(const Snapshot& snapshot) {
  return detail::device_names(snapshot.system.root).value_or(Names{});
}

constexpr const char* kMakeRxe =
    "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev INTERFACE";
constexpr const char* kInstall = "sudo apt-get install libibverbs1 ibverbs-providers";

}  // namespace

Findings check_modules(const Snapshot& snapshot) {
  Finding found{.id = "modules", .title = "RDMA modules of the kernel", .value = {}};
  const auto names = detail::device_names(snapshot.system.root);
  if (names && !names->empty()) {
    found.value = "loaded: there is " + joined(*names);
    return {found};
  }
  found.severity = Severity::note;
  found.value = names ? "loaded, and no device is there" : "none is loaded";
  found.why =
      "without an adapter that is as it should be: soft0 needs none. With one, its driver is "
      "missing, or this container does not see it";
  found.fix =
      fmt::format("sudo modprobe ib_uverbs  # and the adapter's driver; without one: {}", kMakeRxe);
  return {found};
}

Findings check_nodes(const Snapshot& snapshot) {
  const Names devices = kernel_devices(snapshot);
  if (devices.empty()) return {};
  const auto nodes = detail::device_nodes(snapshot.system.root);
  if (nodes.empty())
    return {{.id = "nodes",
             .severity = Severity::error,
             .title = "/dev/infiniband",
             .value = "there is no /dev/infiniband/uverbs*",
             .why = joined(devices) + " cannot be opened",
             .fix = "sudo modprobe ib_uverbs  # in a container: docker run "
                    "--device=/dev/infiniband …"}};
  Findings findings;
  for (const auto& node : nodes) {
    Finding found{.id = "nodes" + node.path.substr(node.path.rfind('/')),
                  .title = node.path,
                  .value = fmt::format("mode {:04o}", node.mode)};
    found.id.replace(5, 1, ".");
    if (!node.usable) {
      found.severity = Severity::error;
      found.why = "this user may not read and write it, so the device cannot be opened";
      found.fix =
          fmt::format("sudo chmod a+rw {}  # until the next boot; then by a udev rule", node.path);
    }
    findings.push_back(std::move(found));
  }
  return findings;
}

Findings check_libraries(const Snapshot& snapshot) {
  const Names devices = kernel_devices(snapshot);
  Finding found{.id = "libibverbs", .title = "libibverbs", .value = "loaded"};
  if (!snapshot.libibverbs_named.empty())
    found.value += ", as VERBATIM_LIBIBVERBS says: " + snapshot.libibverbs_named;
  if (!snapshot.devices.no_libibverbs.empty()) {
    found.value = snapshot.devices.no_libibverbs;
    found.severity = devices.empty() ? Severity::note : Severity::error;
    found.why = devices.empty() ? "adapters need it; soft0 does not"
                                : joined(devices) + " cannot be used without it";
    found.fix = kInstall;
    if (!snapshot.libibverbs_named.empty()) {
      found.value += ": VERBATIM_LIBIBVERBS=" + snapshot.libibverbs_named;
      found.severity = Severity::error;
      found.fix = "unset VERBATIM_LIBIBVERBS";
    }
    return {found};
  }
  Findings findings{found};
  if (snapshot.devices.failure) return findings;
  for (const std::string& name : devices)
    if (std::ranges::find(snapshot.devices.devices, name, &DeviceReport::name) ==
        snapshot.devices.devices.end())
      findings.push_back({.id = "provider." + name,
                          .severity = Severity::error,
                          .title = "provider library of " + name,
                          .value = "libibverbs does not list the device, and the kernel does",
                          .why = "the library for this kind of adapter is missing",
                          .fix = "sudo apt-get install ibverbs-providers"});
  return findings;
}

}  // namespace verbatim::cli
