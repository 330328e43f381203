// SPDX-License-Identifier: MIT OR Apache-2.0
#include "devices.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "device_report.hpp"
#include "terminal.hpp"

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;

// ---- For programs -------------------------------------------------------------------------------

Json json_or_null(const std::optional<Error>& error) {
  return error ? Json(to_string(*error)) : Json(nullptr);
}

Json to_json(const GidReport& gid) {
  return {{"index", gid.entry.index},
          {"gid", to_string(gid.entry.gid)},
          {"type", to_string(gid.entry.type)},
          {"interface", gid.interface}};
}

Json to_json(const PortReport& report) {
  const Port& port = report.port;
  Json gids = Json::array();
  for (const GidReport& gid : report.gids) gids.push_back(to_json(gid));
  return {{"number", port.number},
          {"state", to_string(port.state)},
          {"link_layer", to_string(port.link_layer)},
          {"lid", static_cast<unsigned>(port.lid)},
          {"rate_mbps", port.rate_mbps},
          {"active_mtu_bytes", byte_count(port.active_mtu)},
          {"max_mtu_bytes", byte_count(port.max_mtu)},
          {"max_message_bytes", port.max_message_bytes},
          {"gids", std::move(gids)},
          {"error", json_or_null(report.failure)}};
}

Json to_json(const DevicesReport& report, const DeviceReport& device) {
  Json ports = Json::array();
  for (const PortReport& port : device.ports) ports.push_back(to_json(port));
  return {{"name", device.name},
          {"guid", to_string(device.guid)},
          {"transport", identifier_of(device.transport)},
          {"built_in", device.is_soft()},
          {"firmware", device.firmware},
          {"reliable_connections", device.reliable_connection},
          {"numa_node", device.numa_node ? Json(*device.numa_node) : Json(nullptr)},
          {"taken", device.name == report.taken},
          {"why", why(report, device)},
          {"error", json_or_null(device.failure)},
          {"ports", std::move(ports)}};
}

void print_json(const DevicesReport& report) {
  Json devices = Json::array();
  for (const DeviceReport& device : report.devices) devices.push_back(to_json(report, device));
  const Json all = {{"devices", std::move(devices)},
                    {"taken", report.taken.empty() ? Json(nullptr) : Json(report.taken)},
                    {"error", json_or_null(report.refusal)},
                    {"libibverbs_missing", report.no_libibverbs}};
  fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
}

// ---- For people ---------------------------------------------------------------------------------

void print_port(const Terminal& terminal, const DeviceReport& device, const PortReport& report) {
  const Port& port = report.port;
  if (report.failure) fmt::print("  port {}: {}\n", port.number, to_string(*report.failure));
  if (port.state == PortState::nop) return;
  const bool is_active = port.state == PortState::active;
  const bool is_nominal = device.transport != Transport::hardware && port.rate_mbps != 0;
  fmt::print("  port {}: {}, {}, {}{}, MTU {}", port.number,
             terminal.paint(is_active ? Style::good : Style::bad, to_string(port.state)),
             to_string(port.link_layer), format_rate(port.rate_mbps),
             is_nominal ? " (nominal)" : "", byte_count(port.active_mtu));
  if (port.active_mtu != port.max_mtu) fmt::print(" of {}", byte_count(port.max_mtu));
  if (port.link_layer == LinkLayer::infiniband)
    fmt::print(", LID {:#x}", static_cast<unsigned>(port.lid));
  fmt::print("\n");
  for (const auto& [entry, interface] : report.gids)
    fmt::print("    GID {:<3} {:<10}  {}{}\n", entry.index, to_string(entry.type),
               to_string(entry.gid), interface.empty() ? "" : "  on " + interface);
}

void print_device(const Terminal& terminal, const DevicesReport& report,
                  const DeviceReport& device) {
  fmt::print("{}  {}\n", terminal.paint(Style::bold, device.name), describe(device.transport));
  fmt::print("  GUID {}", to_string(device.guid));
  if (!device.firmware.empty()) fmt::print(", firmware {}", device.firmware);
  if (device.numa_node) fmt::print(", NUMA node {}", *device.numa_node);
  fmt::print("\n");
  for (const PortReport& port : device.ports) print_port(terminal, device, port);
  const std::string reason = why(report, device);
  if (device.name == report.taken)
    fmt::print("  {}: {}\n\n", terminal.paint(Style::good, "open_device() takes it"), reason);
  else
    fmt::print("  open_device() does not take it{}{}\n\n", reason.empty() ? "" : ": ", reason);
}

void print_text(const DevicesReport& report) {
  const Terminal terminal{STDOUT_FILENO};
  for (const DeviceReport& device : report.devices) print_device(terminal, report, device);
  if (!report.no_libibverbs.empty())
    fmt::print("Adapters cannot be seen: {}\n", report.no_libibverbs);
  if (report.refusal)
    fmt::print("{}: {}\nverbatim doctor says more.\n",
               terminal.paint(Style::bad, "open_device() takes none"), to_string(*report.refusal));
}

}  // namespace

void add_devices(CLI::App& app, CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  CLI::App& command =
      *app.add_subcommand("devices", "List devices, ports and addresses, and which one you get");
  command.add_flag("--json", *json, "Print JSON");
  command.footer("Status 1 if open_device() takes none. VERBATIM_DEVICE names the one to take.");
  command.callback([json, &line] {
    const DevicesReport report = report_devices();
    if (*json)
      print_json(report);
    else
      print_text(report);
    line.status = report.taken.empty() ? kBad : kGood;
  });
}

}  // namespace verbatim::cli
