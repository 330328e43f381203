// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices, ports and addresses.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "checks.hpp"

namespace verbatim::cli {
namespace {

std::string port_id(std::string_view what, const DeviceReport& device, const PortReport& port) {
  return fmt::format("{}.{}.{}", what, device.name, port.port.number);
}

std::string port_title(const DeviceReport& device, const PortReport& port) {
  return fmt::format("{} port {}", device.name, port.port.number);
}

bool is_active(const PortReport& port) { return port.port.state == PortState::active; }

/// The network interface behind a port: by its addresses, else by what the kernel says.
std::string interface_of(const Snapshot& snapshot, const DeviceReport& device,
                         const PortReport& port) {
  for (const GidReport& gid : port.gids)
    if (!gid.interface.empty()) return gid.interface;
  const std::string base = snapshot.system.root + "/sys/class/infiniband/" + device.name;
  std::string name =
      detail::first_line(fmt::format("{}/ports/{}/gid_attrs/ndevs/0", base, port.port.number));
  if (name.empty()) name = detail::first_line(base + "/parent");  // rxe, siw
  if (name.empty())
    if (const auto behind = detail::names_in(base + "/device/net"); behind && !behind->empty())
      name = behind->front();
  return name.empty() ? "INTERFACE" : name;
}

/// Whether a network interface is switched on (IFF_UP); nullopt if the kernel does not say.
std::optional<bool> is_up(const Snapshot& snapshot, const std::string& interface) {
  const std::string text =
      detail::first_line(snapshot.system.root + "/sys/class/net/" + interface + "/flags");
  if (!text.starts_with("0x")) return std::nullopt;
  unsigned flags = 0;
  const auto [end, failed] = std::from_chars(text.data() + 2, text.data() + text.size(), flags, 16);
  if (failed != std::errc{}) return std::nullopt;
  return (flags & 1u) != 0;
}

/// Why a RoCE port is not ACTIVE.
void blame_interface(const Snapshot& snapshot, const std::string& interface, Finding& found) {
  const auto up = is_up(snapshot, interface);
  if (up == false)
    found.why += fmt::format(": its network interface {} is down", interface);
  else if (up == true)
    found.why +=
        fmt::format(": {} is up, so there is no cable, or the switch port is off", interface);
  else
    found.why += ": no cable, the switch port is off, or the network interface is down";
  if (up != true) found.fix = fmt::format("sudo ip link set {} up", interface);
}

/// How bad it is that this device cannot be used.
Severity severity_of_loss(const Snapshot& snapshot, const DeviceReport& device) {
  const DevicesReport& all = snapshot.devices;
  if (device.name == all.named || all.taken.empty() || device.name == all.taken)
    return Severity::error;
  if (device.is_soft()) return Severity::warning;
  const auto taken = std::ranges::find(all.devices, all.taken, &DeviceReport::name);
  // A program that should have an adapter gets the software device in its place.
  return taken != all.devices.end() && taken->is_soft() && all.named.empty() ? Severity::error
                                                                             : Severity::warning;
}

Finding wrong_name(const DevicesReport& all) {
  std::vector<std::string> names;
  names.reserve(all.devices.size());
  for (const DeviceReport& device : all.devices) names.push_back(device.name);
  return {.id = "device",
          .severity = Severity::error,
          .title = "what open_device() takes",
          .value = "none: VERBATIM_DEVICE=" + all.named,
          .why = "no device has this name" +
                 (names.empty() ? std::string{} : ": there is " + joined(names)),
          .fix = names.empty() ? "unset VERBATIM_DEVICE"
                               : fmt::format("export VERBATIM_DEVICE={}  # or: unset "
                                             "VERBATIM_DEVICE",
                                             names.front())};
}

Finding port_not_active(const Snapshot& snapshot, const DeviceReport& device,
                        const PortReport& port) {
  const std::string_view state = to_string(port.port.state);
  Finding found{.id = port_id("port", device, port),
                .severity = std::ranges::any_of(device.ports, is_active)
                                ? Severity::note
                                : severity_of_loss(snapshot, device),
                .title = port_title(device, port),
                .value = fmt::format("{}, {}", state, to_string(port.port.link_layer)),
                .why = "only an ACTIVE port sends anything"};
  if (port.port.state == PortState::initializing || port.port.state == PortState::armed) {
    found.why += ": no subnet manager has configured it yet";
    found.fix = "sudo systemctl start opensm  # on one machine of the subnet";
  } else if (port.port.link_layer == LinkLayer::ethernet) {
    blame_interface(snapshot, interface_of(snapshot, device, port), found);
  } else {
    found.why += ": no cable, or the switch port is off";
    found.fix = fmt::format("sudo ibportstate -C {} -P {} -D 0 {} enable", device.name,
                            port.port.number, port.port.number);
  }
  return found;
}

}  // namespace

Findings check_choice(const Snapshot& snapshot) {
  const DevicesReport& all = snapshot.devices;
  const auto taken = std::ranges::find(all.devices, all.taken, &DeviceReport::name);
  if (taken != all.devices.end())
    return {{.id = "device",
             .title = "what open_device() takes",
             .value = all.taken + ": " + why(all, *taken)}};
  const auto named = std::ranges::find(all.devices, all.named, &DeviceReport::name);
  if (!all.named.empty() && named == all.devices.end() && !all.failure) return {wrong_name(all)};
  Finding found{.id = "device",
                .severity = Severity::error,
                .title = "what open_device() takes",
                .value = "none",
                .why = "no device is there"};
  if (all.refusal) {
    found.value += ": " + to_string(*all.refusal);
    found.why = causes_of(snapshot, *all.refusal);
  }
  if (all.devices.empty()) found.fix = "unset VERBATIM_SOFT  # soft0 is there unless that is 0";
  return {found};
}

Findings check_open(const Snapshot& snapshot) {
  Findings findings;
  for (const DeviceReport& device : snapshot.devices.devices) {
    const std::optional<Error>& refusal = snapshot.devices.refusal;
    if (!device.failure || (refusal && to_string(*refusal) == to_string(*device.failure)))
      continue;  // The second was said by check_choice().
    findings.push_back({.id = "open." + device.name,
                        .severity = severity_of_loss(snapshot, device),
                        .title = "opening " + device.name,
                        .value = to_string(*device.failure),
                        .why = causes_of(snapshot, *device.failure)});
  }
  return findings;
}

Findings check_ports(const Snapshot& snapshot) {
  Findings findings;
  for (const DeviceReport& device : snapshot.devices.devices)
    for (const PortReport& port : device.ports) {
      if (is_active(port))
        findings.push_back({.id = port_id("port", device, port),
                            .title = port_title(device, port),
                            .value = fmt::format("ACTIVE, {}, {}", to_string(port.port.link_layer),
                                                 format_rate(port.port.rate_mbps))});
      else
        findings.push_back(port_not_active(snapshot, device, port));
    }
  return findings;
}

Findings check_gids(const Snapshot& snapshot) {
  Findings findings;
  for (const DeviceReport& device : snapshot.devices.devices)
    for (const PortReport& port : device.ports) {
      if (!is_active(port)) continue;
      const bool is_ethernet = port.port.link_layer == LinkLayer::ethernet;
      Finding found{.id = port_id("gid", device, port),
                    .title = "addresses of " + port_title(device, port),
                    .value = fmt::format("{} in the GID table", port.gids.size())};
      const auto routable = [](const GidReport& gid) {
        return gid.entry.type == GidType::roce_v2 && !gid.entry.gid.is_link_local();
      };
      const std::string add_address =
          fmt::format("sudo ip address add 192.168.77.1/24 dev {}  # an address of your network",
                      interface_of(snapshot, device, port));
      if (port.gids.empty() && (is_ethernet || static_cast<unsigned>(port.port.lid) == 0)) {
        found.severity = severity_of_loss(snapshot, device);
        found.why = "a port without an address can be reached by nobody";
        found.fix = is_ethernet ? add_address : "sudo systemctl start opensm";
      } else if (is_ethernet && std::ranges::none_of(port.gids, routable) && !device.is_soft()) {
        found.severity = Severity::warning;
        found.value += ", none of them RoCEv2 with an IP address";
        found.why = "peers need the same kind of address, and link-local ones reach one link only";
        found.fix = add_address;
      } else if (!is_ethernet && static_cast<unsigned>(port.port.lid) == 0) {
        found.severity = Severity::warning;
        found.value += ", and no LID";
        found.why = "no subnet manager has configured the port";
        found.fix = "sudo systemctl start opensm  # on one machine of the subnet";
      }
      findings.push_back(std::move(found));
    }
  return findings;
}

Findings check_mtu(const Snapshot& snapshot) {
  Findings findings;
  for (const DeviceReport& device : snapshot.devices.devices)
    for (const PortReport& port : device.ports) {
      if (!is_active(port)) continue;
      const auto active = byte_count(port.port.active_mtu);
      const auto most = byte_count(port.port.max_mtu);
      Finding found{.id = port_id("mtu", device, port),
                    .title = "MTU of " + port_title(device, port),
                    .value = std::to_string(active)};
      if (active < most) {
        found.severity = Severity::note;
        found.value += fmt::format(" of {}", most);
        found.why =
            "larger packets carry more at the same rate; both sides and the switches "
            "between must have the same";
        if (port.port.link_layer == LinkLayer::ethernet)
          // The headers of RoCE need some of the interface's MTU.
          found.fix = fmt::format("sudo ip link set {} mtu {}",
                                  interface_of(snapshot, device, port), most + 104);
        else
          found.fix = "grep mtu /etc/opensm/partitions.conf  # the subnet manager's choice";
      }
      findings.push_back(std::move(found));
    }
  return findings;
}

}  // namespace verbatim::cli
