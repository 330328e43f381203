// SPDX-License-Identifier: MIT OR Apache-2.0
#include "device_report.hpp"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>

#include "base/environment.hpp"
#include "verbatim/provider/system.hpp"
#include "verbatim/verbs/context.hpp"

namespace verbatim::cli {
namespace {

std::string interface_name(std::uint32_t index) {
  char name[IF_NAMESIZE] = "";
  return index != 0 && if_indextoname(index, name) != nullptr ? name : "";
}

PortReport report_port(const Context& context, std::uint8_t number) {
  PortReport report{.port = {.number = number}};
  const auto port = context.query_port(number);
  if (!port) {
    report.failure = port.error();
    return report;
  }
  report.port = *port;
  const auto gids = context.query_gid_table(number);
  if (!gids) {
    report.failure = gids.error();
    return report;
  }
  for (const GidEntry& entry : *gids)
    report.gids.push_back({.entry = entry, .interface = interface_name(entry.interface_index)});
  return report;
}

DeviceReport report_device(const Device& device) {
  DeviceReport report{
      .name = std::string{device.name()}, .guid = device.guid(), .transport = device.transport()};
  const auto context = device.open();
  if (!context) {
    report.failure = context.error();
    return report;
  }
  const Capabilities& can = context->capabilities();
  report.firmware = can.firmware_version;
  report.reliable_connection = can.reliable_connection;
  report.no_connection_reason = can.no_connection_reason;
  if (const auto node = context->numa_node()) report.numa_node = *node;
  for (unsigned number = 1; number <= can.port_count; ++number)
    report.ports.push_back(report_port(*context, static_cast<std::uint8_t>(number)));
  return report;
}

bool has_active_port(const DeviceReport& device) {
  return std::ranges::any_of(
      device.ports, [](const PortReport& each) { return each.port.state == PortState::active; });
}

/// What open_device() has against it when no name is given; "" if nothing.
std::string objection(const DeviceReport& device) {
  if (device.failure) return to_string(*device.failure);
  if (!device.reliable_connection)
    return "it has no reliable connections" +
           (device.no_connection_reason.empty() ? "" : ": " + device.no_connection_reason);
  if (device.ports.empty()) return "it has no ports";
  if (!has_active_port(device))
    return fmt::format("no port is ACTIVE: port 1 is {}",
                       to_string(device.ports.front().port.state));
  return {};
}

std::string why_taken(const DevicesReport& report, const DeviceReport& device) {
  if (!report.asked_for.empty()) return "the command line names it";
  if (!report.named.empty()) return "VERBATIM_DEVICE names it";
  std::string text = "it is the first with an ACTIVE port and reliable connections";
  if (!device.is_soft()) return text;
  const bool is_alone = std::ranges::all_of(report.devices, &DeviceReport::is_soft);
  return text + (is_alone ? ", and there is no real device" : ", and no real device works");
}

}  // namespace

DevicesReport report_devices(const std::string& asked_for) {
  DevicesReport report;
  report.asked_for = asked_for;
  report.named = environment("VERBATIM_DEVICE", "");
  if (const char* const reason = system_provider().unavailable()) report.no_libibverbs = reason;
  const auto devices = list_devices();
  if (!devices) {
    report.failure = report.refusal = devices.error();
    return report;
  }
  for (const Device& device : *devices) report.devices.push_back(report_device(device));
  const auto taken = open_device({.name = asked_for});
  if (taken)
    report.taken = taken->name();
  else
    report.refusal = taken.error();
  return report;
}

std::string why(const DevicesReport& report, const DeviceReport& device) {
  if (device.name == report.taken) return why_taken(report, device);
  if (!report.asked_for.empty() && device.name != report.asked_for)
    return "the command line names " + report.asked_for;
  if (!report.named.empty() && device.name != report.named)
    return "VERBATIM_DEVICE names " + report.named;
  if (std::string against = objection(device); !against.empty()) return against;
  return report.taken.empty() ? "" : report.taken + " comes first";
}

std::string_view describe(Transport transport) noexcept {
  switch (transport) {
    case Transport::hardware: return "RDMA adapter";
    case Transport::kernel_software: return "software device of the kernel";
    case Transport::soft: return "software device built into Verbatim: this user, this machine";
  }
  return "unknown kind";
}

std::string_view identifier_of(Transport transport) noexcept {
  switch (transport) {
    case Transport::hardware: return "hardware";
    case Transport::kernel_software: return "kernel_software";
    case Transport::soft: return "soft";
  }
  return "unknown";
}

std::string_view to_string(GidType type) noexcept {
  switch (type) {
    case GidType::infiniband: return "InfiniBand";
    case GidType::roce_v1: return "RoCEv1";
    case GidType::roce_v2: return "RoCEv2";
  }
  return "unknown";
}

std::string format_rate(std::uint32_t mbps) {
  return mbps == 0 ? "unknown rate" : fmt::format("{:g} Gbit/s", mbps / 1000.0);
}

}  // namespace verbatim::cli
