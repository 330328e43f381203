// SPDX-License-Identifier: MIT OR Apache-2.0
#include "preload/system_files.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <span>

#include "soft/control/device.hpp"

namespace verbatim::preload {
namespace {

using engine::Device;
using std::string_view;

/// Writes the text of an attribute, without the newline.
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

void write_gid_type(const Device&, char* text, std::size_t size) noexcept {
  std::snprintf(text, size, "%s", engine::are_ports_ethernet() ? "RoCE v2" : "IB/RoCE v1");
}

struct Entry {
  string_view path;  // Below the device's directory.
  SystemFile::Kind kind;
  Write write = nullptr;
  const char* text = "";  // For attributes that are constant.
};

constexpr Entry directory(string_view path) noexcept {
  return {.path = path, .kind = SystemFile::Kind::directory};
}
constexpr Entry constant(string_view path, const char* text) noexcept {
  return {.path = path, .kind = SystemFile::Kind::attribute, .text = text};
}
constexpr Entry written(string_view path, Write write) noexcept {
  return {.path = path, .kind = SystemFile::Kind::attribute, .write = write};
}

void write_name(const Device& device, char* text, std::size_t size) noexcept {
  std::snprintf(text, size, "%s", device.raw.name);
}

constexpr Entry kDevice[] = {
    directory(""),
    constant("board_id", "VERBATIM"),
    written("fw_ver",
            [](const Device&, char* t, std::size_t n) {
              std::snprintf(t, n, "soft-%08x", engine::layout_version());
            }),
    constant("hca_type", "soft"),
    constant("hw_rev", "0"),
    written("node_desc", &write_name),
    written("node_guid", &write_guid),
    constant("node_type", "1: CA"),
    written("sys_image_guid", &write_guid),
    directory("ports"),
    directory("ports/1"),
    constant("ports/1/cap_mask", "0x0"),
    directory("ports/1/gid_attrs"),
    directory("ports/1/gid_attrs/types"),
    written("ports/1/gid_attrs/types/0", &write_gid_type),
    written("ports/1/gid_attrs/types/1", &write_gid_type),
    directory("ports/1/gids"),
    written("ports/1/gids/0",
            [](const Device& d, char* t, std::size_t n) { write_gid(d, 0, t, n); }),
    written("ports/1/gids/1",
            [](const Device& d, char* t, std::size_t n) { write_gid(d, 1, t, n); }),
    written("ports/1/lid", [](const Device& d, char* t,
                              std::size_t n) { std::snprintf(t, n, "0x%x", port_of(d).lid); }),
    constant("ports/1/lid_mask_count", "0"),
    written("ports/1/link_layer",
            [](const Device&, char* t, std::size_t n) {
              std::snprintf(t, n, "%s", engine::are_ports_ethernet() ? "Ethernet" : "InfiniBand");
            }),
    constant("ports/1/phys_state", "5: LinkUp"),
    directory("ports/1/pkeys"),
    constant("ports/1/pkeys/0", "0xffff"),
    written("ports/1/rate",
            [](const Device&, char* t, std::size_t n) {
              std::snprintf(t, n, "%u Gb/sec (4X EDR)", engine::kPortSpeedMbps / 1000);
            }),
    written("ports/1/sm_lid",
            [](const Device& d, char* t, std::size_t n) {
              std::snprintf(t, n, "0x%x", port_of(d).sm_lid);
            }),
    constant("ports/1/sm_sl", "0"),
    written("ports/1/state",
            [](const Device& d, char* t, std::size_t n) {
              const bool up = port_of(d).state == IBV_PORT_ACTIVE;
              std::snprintf(t, n, "%s", up ? "4: ACTIVE" : "1: DOWN");
            }),
};

constexpr Entry kVerbs[] = {
    directory(""),
    constant("abi_version", "1"),
    written("ibdev", &write_name),
};

constexpr Entry kNode[] = {{.path = "", .kind = SystemFile::Kind::node}};

/// A directory of the kernel's, and what it would contain for each device: a name that ends with
/// the number of the device, and the entries below that.
struct Class {
  string_view path;
  string_view name;
  std::span<const Entry> entries;
};
constexpr Class kClasses[] = {
    {engine::kSystemDevices, "soft", kDevice},
    {engine::kSystemVerbs, "uverbs-soft", kVerbs},
    {"/dev/infiniband", "uverbs-soft", kNode},
};

/// One of our paths, split into its parts. For a class directory itself, `device` is null.
struct Parsed {
  const Class* in = nullptr;
  const Device* device = nullptr;
  string_view rest;
};

/// Removes `prefix` and the number after it from the path.
bool take(string_view& path, string_view prefix, std::uint32_t& number) noexcept {
  if (!path.starts_with(prefix)) return false;
  const char* const digits = path.data() + prefix.size();
  const char* const end = path.data() + path.size();
  const auto [after, failed] = std::from_chars(digits, end, number);
  if (failed != std::errc{} || (after - digits > 1 && *digits == '0')) return false;
  path = {after, end};
  return path.empty() || path.front() == '/';
}

bool parse(string_view path, Parsed& parsed) noexcept {
  for (const Class& each : kClasses) {
    if (!path.starts_with(each.path)) continue;
    string_view rest = path.substr(each.path.size());
    std::uint32_t number = 0;
    if (!rest.empty()) {
      if (rest.front() != '/') continue;  // infiniband_verbs begins with infiniband.
      rest.remove_prefix(1);
      if (!take(rest, each.name, number)) return false;
      if (!rest.empty()) rest.remove_prefix(1);
    }
    const Device* const device = engine::find_device(number);
    if (device == nullptr) return false;
    parsed = {&each, path.size() > each.path.size() ? device : nullptr, rest};
    return true;
  }
  return false;
}

/// The same path has the same inode number in every process, as in a file system.
std::uint64_t number_of(string_view directory, string_view name = {}) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&](string_view text) {
    for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  };
  mix(directory);
  if (!name.empty()) mix("/");
  mix(name);
  return hash | 1;
}

/// The name of an entry if it is directly in this directory; otherwise empty.
string_view name_in(string_view directory, string_view path) noexcept {
  if (path.empty() || !path.starts_with(directory)) return {};
  path.remove_prefix(directory.size());
  if (!directory.empty()) {
    if (!path.starts_with('/')) return {};
    path.remove_prefix(1);
  }
  return path.find('/') == string_view::npos ? path : string_view{};
}

void name_entry(SystemEntry& entry, SystemFile::Kind kind, string_view directory,
                string_view name) noexcept {
  entry.kind = kind;
  entry.number = number_of(directory, name);
  const std::size_t length = std::min(name.size(), sizeof entry.name - 1);
  name.copy(entry.name, length);
  entry.name[length] = '\0';
}

}  // namespace

constinit thread_local int DevicesHidden::depth = 0;

bool find_system_file(string_view path, SystemFile& file) noexcept {
  Parsed parsed;
  if (!parse(path, parsed)) return false;
  file.number = number_of(path);
  file.is_class = parsed.device == nullptr;
  if (file.is_class) return true;
  const auto entries = parsed.in->entries;
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& each) { return each.path == parsed.rest; });
  if (found == entries.end()) return false;
  file.kind = found->kind;
  file.device = parsed.device->index;
  if (found->kind != SystemFile::Kind::attribute) return true;
  constexpr std::size_t kRoom = sizeof file.text - 1;
  if (found->write != nullptr) found->write(*parsed.device, file.text, kRoom);
  if (found->write == nullptr) std::snprintf(file.text, kRoom, "%s", found->text);
  file.length = std::strlen(file.text);
  file.text[file.length++] = '\n';
  return true;
}

bool list_system_directory(string_view path, std::size_t index, SystemEntry& entry) noexcept {
  Parsed parsed;
  if (!parse(path, parsed)) return false;
  if (parsed.device == nullptr) {
    const auto number = static_cast<std::uint32_t>(index);
    if (engine::find_device(number) == nullptr) return false;
    char name[sizeof entry.name];
    std::snprintf(name, sizeof name, "%.*s%u", static_cast<int>(parsed.in->name.size()),
                  parsed.in->name.data(), number);
    name_entry(entry, parsed.in->entries.front().kind, path, name);
    return true;
  }
  for (const Entry& each : parsed.in->entries) {
    const string_view name = name_in(parsed.rest, each.path);
    if (name.empty() || index-- != 0) continue;
    name_entry(entry, each.kind, path, name);
    return true;
  }
  return false;
}

}  // namespace verbatim::preload
