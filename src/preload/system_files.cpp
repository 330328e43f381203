// SPDX-License-Identifier: MIT OR Apache-2.0
#include "preload/system_files.hpp"

#include <endian.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "soft/control/device.hpp"

namespace verbatim::preload {
namespace {

using engine::Device;
using std::string_view;

/// Writes an attribute's text, without its newline.
using Write = void (*)(const Device& device, char* text, std::size_t size);

ibv_port_attr port_of(const Device& device) noexcept {
  ibv_port_attr port{};
  engine::describe_port(device, 1, &port);
  return port;
}

void write_guid(const Device& device, char* text, std::size_t size) noexcept {
  const std::uint8_t* const at = device.gid.raw + 8;
  std::snprintf(text, size, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", at[0], at[1], at[2], at[3],
                at[4], at[5], at[6], at[7]);
}

void write_gid(const Device& device, std::uint32_t index, char* text, std::size_t size) noexcept {
  ibv_gid_entry table[engine::kGidTable]{};
  const ssize_t count = engine::describe_gids(device, table, engine::kGidTable);
  ibv_gid gid{};
  for (ssize_t i = 0; i < count; ++i)
    if (table[i].gid_index == index) gid = table[i].gid;
  char* end = text;
  for (int i = 0; i < 16; i += 2)
    end += std::snprintf(end, size - static_cast<std::size_t>(end - text),
                         i == 0 ? "%02x%02x" : ":%02x%02x", gid.raw[i], gid.raw[i + 1]);
}

void write_gid_type(const Device& device, char* text, std::size_t size) noexcept {
  std::snprintf(text, size, "%s", engine::is_ethernet(device) ? "RoCE v2" : "IB/RoCE v1");
}

struct Attribute {
  string_view name;
  Write write;  // nullptr: always the same text.
  const char* text = nullptr;
};

constexpr Attribute kDeviceAttributes[] = {
    {"board_id", nullptr, "VERBATIM"},
    {"fw_ver", [](const Device&, char* t,
                  std::size_t n) { std::snprintf(t, n, "soft-%08x", engine::layout_version()); }},
    {"hca_type", nullptr, "soft"},
    {"hw_rev", nullptr, "0"},
    {"node_desc",
     [](const Device& d, char* t, std::size_t n) { std::snprintf(t, n, "%s", d.raw.name); }},
    {"node_guid", &write_guid},
    {"node_type", nullptr, "1: CA"},
    {"sys_image_guid", &write_guid},
};

// Below ports/1.
constexpr Attribute kPortAttributes[] = {
    {"cap_mask", nullptr, "0x0"},
    {"gid_attrs/types/0", &write_gid_type},
    {"gid_attrs/types/1", &write_gid_type},
    {"gids/0", [](const Device& d, char* t, std::size_t n) { write_gid(d, 0, t, n); }},
    {"gids/1", [](const Device& d, char* t, std::size_t n) { write_gid(d, 1, t, n); }},
    {"lid",
     [](const Device& d, char* t, std::size_t n) { std::snprintf(t, n, "0x%x", port_of(d).lid); }},
    {"lid_mask_count", nullptr, "0"},
    {"link_layer",
     [](const Device& d, char* t, std::size_t n) {
       std::snprintf(t, n, "%s", engine::is_ethernet(d) ? "Ethernet" : "InfiniBand");
     }},
    {"phys_state", nullptr, "5: LinkUp"},
    {"pkeys/0", nullptr, "0xffff"},
    {"rate",
     [](const Device&, char* t, std::size_t n) {
       std::snprintf(t, n, "%u Gb/sec (4X EDR)", engine::kPortSpeedMbps / 1000);
     }},
    {"sm_lid", [](const Device& d, char* t,
                  std::size_t n) { std::snprintf(t, n, "0x%x", port_of(d).sm_lid); }},
    {"sm_sl", nullptr, "0"},
    {"state",
     [](const Device& d, char* t, std::size_t n) {
       const bool up = port_of(d).state == IBV_PORT_ACTIVE;
       std::snprintf(t, n, "%s", up ? "4: ACTIVE" : "1: DOWN");
     }},
};

constexpr Attribute kNodeAttributes[] = {
    {"abi_version", nullptr, "1"},
    {"ibdev",
     [](const Device& d, char* t, std::size_t n) { std::snprintf(t, n, "%s", d.raw.name); }},
};

constexpr string_view kDirectories[] = {"",
                                        "ports",
                                        "ports/1",
                                        "ports/1/gids",
                                        "ports/1/gid_attrs",
                                        "ports/1/gid_attrs/types",
                                        "ports/1/pkeys"};

template <std::size_t Count>
bool write_one_of(const Attribute (&all)[Count], string_view name, const Device& device,
                  SystemFile& file) noexcept {
  const auto* const found =
      std::find_if(all, all + Count, [&](const Attribute& each) { return each.name == name; });
  if (found == all + Count) return false;
  constexpr std::size_t kRoom = sizeof file.text - 1;
  if (found->write != nullptr) found->write(device, file.text, kRoom);
  if (found->write == nullptr) std::snprintf(file.text, kRoom, "%s", found->text);
  file.length = std::strlen(file.text);
  file.text[file.length++] = '\n';
  file.kind = SystemFile::Kind::attribute;
  return true;
}

/// Takes `prefix`, and a number behind it, off the path.
bool take(string_view& path, string_view prefix, std::uint32_t& number) noexcept {
  if (!path.starts_with(prefix)) return false;
  const char* const digits = path.data() + prefix.size();
  const char* const end = path.data() + path.size();
  const auto [after, failed] = std::from_chars(digits, end, number);
  if (failed != std::errc{} || (after - digits > 1 && *digits == '0')) return false;
  path = {after, end};
  return path.empty() || path.front() == '/';
}

bool find_device_file(const Device& device, string_view rest, SystemFile& file) noexcept {
  constexpr string_view kPort = "ports/1/";
  if (std::find(std::begin(kDirectories), std::end(kDirectories), rest) != std::end(kDirectories)) {
    file.kind = SystemFile::Kind::directory;
    return true;
  }
  if (rest.starts_with(kPort))
    return write_one_of(kPortAttributes, rest.substr(kPort.size()), device, file);
  return write_one_of(kDeviceAttributes, rest, device, file);
}

bool find_node_file(const Device& device, string_view rest, SystemFile& file) noexcept {
  file.kind = SystemFile::Kind::directory;
  return rest.empty() || write_one_of(kNodeAttributes, rest, device, file);
}

}  // namespace

bool find_system_file(const char* path, SystemFile& file) noexcept {
  // Every file that a program opens comes through here: most go away at the first look.
  if (path == nullptr || path[0] != '/' || (path[1] != 'd' && path[1] != 's')) return false;
  string_view rest{path};
  const bool is_node = take(rest, "/dev/infiniband/uverbs-soft", file.device);
  const bool is_device = !is_node && take(rest, "/sys/class/infiniband/soft", file.device);
  const bool is_verbs =
      !is_node && !is_device && take(rest, "/sys/class/infiniband_verbs/uverbs-soft", file.device);
  if (!is_node && !is_device && !is_verbs) return false;
  const Device* const device = engine::find_device(file.device);
  if (device == nullptr) return false;
  file.kind = SystemFile::Kind::node;
  if (is_node) return rest.empty();
  if (!rest.empty()) rest.remove_prefix(1);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  return is_device ? find_device_file(*device, rest, file) : find_node_file(*device, rest, file);
}

}  // namespace verbatim::preload
