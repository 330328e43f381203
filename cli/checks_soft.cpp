// SPDX-License-Identifier: MIT OR Apache-2.0
// The software device: its directory, its space, its way into other processes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checks.hpp"
#include "units.hpp"

namespace verbatim::cli {
namespace {

using detail::format_bytes;

bool is_hidden(const Snapshot& snapshot) {
  return std::ranges::none_of(snapshot.devices.devices, &DeviceReport::is_soft);
}

/// It works all the same: where another user has taken its usual place, it has a second.
bool works(const Snapshot& snapshot) {
  const auto soft = std::ranges::find_if(snapshot.devices.devices, &DeviceReport::is_soft);
  return soft != snapshot.devices.devices.end() && !soft->failure;
}

std::string elsewhere() { return "export VERBATIM_SOFT_DIR=\"$HOME/.verbatim\""; }

/// There is nothing at its name: can it be made?
void judge_parent(const Snapshot& snapshot, Finding& found) {
  const std::filesystem::path directory = snapshot.system.soft_directory;
  const std::string parent = directory.parent_path().string();
  if (works(snapshot)) {
    found.value = directory.string() + ": made when it is needed";
    return;
  }
  const auto above = detail::file_state(snapshot.system.root + parent);
  if (above && (above->is_directory || above->is_link)) {
    found.severity = Severity::error;
    found.value = fmt::format("{} cannot be made: {} has mode {:04o} and belongs to uid {}",
                              directory.string(), parent, above->mode, above->owner);
    found.why = "this user may not write there, or the file system is full or read-only";
    found.fix = elsewhere();
    return;
  }
  found.severity = Severity::error;
  found.value = fmt::format("{} cannot be made: {} is {}", directory.string(), parent,
                            above ? "a file" : "not there");
  found.why = "soft0 cannot be opened";
  found.fix = above ? elsewhere() : "mkdir -p " + parent;
}

}  // namespace

Findings check_soft_settings(const Snapshot& snapshot) {
  Finding found{.id = "soft.settings", .title = "settings of soft0", .value = "as they should be"};
  if (snapshot.soft_settings) {
    const Error& error = *snapshot.soft_settings;
    found.severity = Severity::error;
    found.value = fmt::format("{}={}", error.operation, error.text_view());
    found.why = fmt::format("it {}: soft0 cannot be opened", error.field);
    found.fix = fmt::format("unset {}", error.operation);
  }
  return {found};
}

Findings check_soft_directory(const Snapshot& snapshot) {
  Finding found{.id = "soft.directory", .title = "directory of soft0", .value = {}};
  if (is_hidden(snapshot)) {
    found.severity = Severity::note;
    found.value = "soft0 is hidden (VERBATIM_SOFT=0)";
    found.fix = "unset VERBATIM_SOFT";
    return {found};
  }
  const std::string& path = snapshot.system.soft_directory;
  const auto state = detail::file_state(snapshot.system.root + path);
  if (!state) {
    judge_parent(snapshot, found);
    return {found};
  }
  found.value = fmt::format("{}, mode {:04o}, uid {}", path, state->mode & 0777u, state->owner);
  found.severity = works(snapshot) ? Severity::note : Severity::error;
  if (state->is_link || !state->is_directory) {
    found.value = fmt::format("{} is a {}", path, state->is_link ? "symbolic link" : "file");
    found.why = "soft0 keeps its files only in a real directory of this user";
    found.fix = "rm " + path;
  } else if (state->owner != snapshot.user) {
    found.why = fmt::format(
        "it belongs to uid {}, and this user is {}: soft0 keeps its files only "
        "in a directory of this user",
        state->owner, snapshot.user);
    found.fix = elsewhere();
    if (snapshot.soft_directory_named) found.fix = "unset VERBATIM_SOFT_DIR";
  } else if ((state->mode & 077u) != 0) {
    found.why =
        "others may enter it: soft0 keeps its files only in a directory that is closed "
        "(mode 0700)";
    found.fix = "chmod 700 " + path;
  } else {
    found.severity = Severity::ok;
  }
  return {found};
}

Findings check_soft_space(const Snapshot& snapshot) {
  if (is_hidden(snapshot) || !snapshot.soft_space) return {};
  const std::string& path = snapshot.system.soft_directory;
  const auto& [free, total] = *snapshot.soft_space;
  const bool is_shm = path.starts_with("/dev/shm");
  Finding found{.id = "soft.space",
                .title = is_shm ? "space in /dev/shm" : "space for " + path,
                .value = fmt::format("{} of {} free", format_bytes(free), format_bytes(total))};
  if (free >= 16 * kMiB) return {found};
  found.severity = free < kMiB ? Severity::error : Severity::warning;
  found.why = "soft0 keeps queues there: opening it, or making a queue, fails with ENOSPC";
  found.fix = is_shm ? "sudo mount -o remount,size=1G /dev/shm  # Docker: --shm-size=1g"
                     : "export VERBATIM_SOFT_DIR=/dev/shm/verbatim-$(id -u)";
  return {found};
}

Findings check_soft_leftovers(const Snapshot& snapshot) {
  std::size_t living = 0;
  std::size_t dead = 0;
  std::uint64_t bytes = 0;
  for (const soft::InspectedProcess& each : snapshot.soft_processes) {
    ++(each.is_alive ? living : dead);
    if (!each.is_alive) bytes += each.file_bytes;
  }
  Finding found{
      .id = "soft.leftovers",
      .title = "files of soft0",
      .value = fmt::format("{} {} it", living, living == 1 ? "process uses" : "processes use")};
  if (dead > 0) {
    found.severity = Severity::note;
    found.value += fmt::format("; {} that {} killed left {}", dead, dead == 1 ? "was" : "were",
                               format_bytes(bytes));
    found.why = "they go when the last program that uses soft0 ends";
    found.fix = "verbatim devices  # opens soft0, and so removes them";
  }
  return {found};
}

Findings check_soft_ptrace(const Snapshot& snapshot) {
  const std::string scope =
      detail::first_line(snapshot.system.root + "/proc/sys/kernel/yama/ptrace_scope");
  Finding found{.id = "soft.ptrace",
                .title = "ptrace policy (Yama)",
                .value = scope.empty() ? "none" : "ptrace_scope is " + scope};
  const bool is_denied =
      !scope.empty() && (scope > "1" || (scope == "1" && !snapshot.soft_may_be_traced));
  if (is_denied) {
    found.severity = Severity::note;
    found.why =
        "soft0 may not reach the memory of another process that is not a Buffer: the "
        "owner copies, which is slower";
    found.fix = scope == "1" ? "export VERBATIM_SOFT_PTRACE=any  # or: sudo sysctl "
                               "kernel.yama.ptrace_scope=0"
                             : "sudo sysctl kernel.yama.ptrace_scope=0  # 3 stays until reboot";
  }
  return {found};
}

}  // namespace verbatim::cli
