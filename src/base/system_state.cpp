// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/system_state.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/environment.hpp"

namespace verbatim::detail {
namespace {

// The type of the argument differs between C libraries.
std::uint64_t soft_limit(auto resource) noexcept {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return kUnlimited;
  return limit.rlim_cur == RLIM_INFINITY ? kUnlimited : std::uint64_t{limit.rlim_cur};
}

std::optional<std::uint64_t> number_in(std::string_view text, int base) {
  const std::size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (failed != std::errc{}) return std::nullopt;
  return value;
}

struct MapsLine {
  std::uint64_t begin;
  std::uint64_t end;
  bool accessible;
  bool writable;
};

/// A line such as "7f0000000000-7f0000001000 rw-p ...".
std::optional<MapsLine> parse_maps_line(const std::string& line) {
  const std::size_t dash = line.find('-');
  const std::size_t space = line.find(' ');
  if (dash == std::string::npos || space == std::string::npos || space + 2 >= line.size())
    return std::nullopt;
  const auto begin = number_in(std::string_view{line}.substr(0, dash), 16);
  const auto end = number_in(std::string_view{line}.substr(dash + 1), 16);
  if (!begin || !end) return std::nullopt;
  return MapsLine{*begin, *end, line[space + 1] == 'r', line[space + 2] == 'w'};
}

}  // namespace

System System::current() {
  const char* const named = environment("VERBATIM_SOFT_DIR");
  return {.root = "",
          .memlock_bytes = soft_limit(RLIMIT_MEMLOCK),
          .max_descriptors = soft_limit(RLIMIT_NOFILE),
          .soft_directory = named != nullptr ? std::string{named}
                                             : "/dev/shm/verbatim-" + std::to_string(geteuid())};
}

std::optional<std::vector<std::string>> names_in(const std::string& directory) {
  std::error_code failed;
  std::filesystem::directory_iterator entry{directory, failed};
  if (failed) return std::nullopt;
  std::vector<std::string> names;
  // If the increment fails, the iterator is at the end.
  for (; entry != std::filesystem::directory_iterator{}; entry.increment(failed))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<std::string> proc_text(const std::string& path, const std::string& name) {
  std::ifstream file{path};
  const std::string start = name + ':';
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(start)) continue;
    const std::size_t text = line.find_first_not_of(" \t", start.size());
    return text == std::string::npos ? std::string{} : line.substr(text);
  }
  return std::nullopt;
}

std::optional<FileState> file_state(const std::string& path) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) return std::nullopt;
  return FileState{.is_directory = S_ISDIR(found.st_mode),
                   .is_link = S_ISLNK(found.st_mode),
                   .owner = found.st_uid,
                   .mode = found.st_mode & 07777u};
}

std::optional<std::vector<std::string>> device_names(const std::string& root) {
  return names_in(root + "/sys/class/infiniband");
}

std::vector<PortLine> port_states(const std::string& root) {
  std::vector<PortLine> lines;
  const std::filesystem::path devices = root + "/sys/class/infiniband";
  for (const auto& device : device_names(root).value_or(std::vector<std::string>{})) {
    const auto ports = devices / device / "ports";
    for (const auto& port : names_in(ports.string()).value_or(std::vector<std::string>{}))
      lines.push_back({device, port, first_line((ports / port / "state").string())});
  }
  return lines;
}

std::vector<DeviceNode> device_nodes(const std::string& root) {
  const std::filesystem::path directory = "/dev/infiniband";
  std::vector<DeviceNode> nodes;
  for (const auto& name :
       names_in(root + directory.string()).value_or(std::vector<std::string>{})) {
    if (!name.starts_with("uverbs")) continue;
    const std::string path = directory / name;
    const std::string real = root + path;
    struct stat found{};
    if (stat(real.c_str(), &found) != 0) continue;
    nodes.push_back({.path = path,
                     .mode = found.st_mode & 07777u,
                     .usable = access(real.c_str(), R_OK | W_OK) == 0});
  }
  return nodes;
}

std::optional<std::uint64_t> proc_value(const std::string& path, const std::string& name) {
  const auto text = proc_text(path, name);
  if (!text) return std::nullopt;
  const auto value = number_in(*text, 10);
  return value && text->ends_with(" kB") ? *value * 1024 : value;
}

std::optional<HugePageState> huge_pages(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  const auto total = proc_value(path, "HugePages_Total");
  const auto free = proc_value(path, "HugePages_Free");
  const auto page = proc_value(path, "Hugepagesize");
  if (!total || !free || !page) return std::nullopt;
  return HugePageState{*total, *free, *page};
}

bool may_lock_without_limit(const std::string& root) {
  constexpr unsigned kCapIpcLock = 14;
  const auto text = proc_text(root + "/proc/self/status", "CapEff");
  const auto capabilities = text ? number_in(*text, 16) : std::nullopt;
  return capabilities && (*capabilities >> kCapIpcLock & 1) != 0;
}

std::optional<std::size_t> open_descriptors(const std::string& root) {
  const auto names = names_in(root + "/proc/self/fd");
  if (!names) return std::nullopt;
  return names->size();
}

std::optional<Space> space_at(const std::string& path) {
  struct statvfs found{};
  if (statvfs(path.c_str(), &found) != 0) return std::nullopt;
  return Space{.free = std::uint64_t{found.f_bavail} * found.f_frsize,
               .total = std::uint64_t{found.f_blocks} * found.f_frsize};
}

Mapping mapping_of(const std::string& root, std::uint64_t address, std::uint64_t length) {
  Mapping mapping;
  std::ifstream file{root + "/proc/self/maps"};
  if (!file || length == 0 || length > kUnlimited - address) return mapping;
  const std::uint64_t end = address + length;
  std::uint64_t next = address;  // All below is mapped; the file is sorted.
  for (std::string text; next < end && std::getline(file, text);) {
    const auto line = parse_maps_line(text);
    if (!line || line->end <= next) continue;
    if (line->begin > next || !line->accessible) break;
    if (!line->writable && !mapping.first_read_only) mapping.first_read_only = next;
    next = line->end;
  }
  if (next < end) mapping.first_unmapped = next;
  return mapping;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"bytes", "KiB", "MiB", "GiB",
                                                        "TiB",   "PiB", "EiB"};
  std::size_t unit = 0;
  std::uint64_t scale = 1;
  while (unit + 1 < kUnits.size() && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes / scale);
  // One digit after the point, rounded down, because a limit must not look larger than it is. The
  // product fits, because the remainder is below 2^60.
  if (const std::uint64_t tenths = bytes % scale * 10 / scale; tenths > 0)
    (text += '.') += std::to_string(tenths);
  return (text += ' ') += kUnits[unit];
}

}  // namespace verbatim::detail
