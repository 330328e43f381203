// SPDX-License-Identifier: MIT OR Apache-2.0
// Limits of the process and the machine.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "checks.hpp"
#include "units.hpp"

namespace verbatim::cli {
namespace {

using detail::format_bytes;
using detail::kUnlimited;

/// Below the first, not even a program's queues fit; below the second, real programs do not.
constexpr std::uint64_t kTinyMemlock = kMiB;
constexpr std::uint64_t kSmallMemlock = 64 * kMiB;

/// "0-3,8": the numbers.
std::set<int> numbers_in(std::string_view list) {
  std::set<int> numbers;
  while (!list.empty()) {
    int first = 0;
    auto [end, failed] = std::from_chars(list.data(), list.data() + list.size(), first);
    if (failed != std::errc{}) break;
    list.remove_prefix(static_cast<std::size_t>(end - list.data()));
    int last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      const auto range = std::from_chars(list.data(), list.data() + list.size(), last);
      if (range.ec != std::errc{}) break;
      list.remove_prefix(static_cast<std::size_t>(range.ptr - list.data()));
    }
    constexpr int kMost = 1 << 16;  // More processors than there are: the file lies.
    for (int each = first; each <= std::min(last, kMost); ++each) numbers.insert(each);
    if (!list.starts_with(',')) break;
    list.remove_prefix(1);
  }
  return numbers;
}

constexpr const char* kNodes = "/sys/devices/system/node";

/// The nodes that have a processor on which this process may run.
std::set<int> nodes_of_process(const std::string& root) {
  const auto text = detail::proc_text(root + "/proc/self/status", "Cpus_allowed_list");
  const std::set<int> allowed = numbers_in(text.value_or(""));
  std::set<int> nodes;
  for (const int node : numbers_in(detail::first_line(root + kNodes + "/online"))) {
    const auto processors =
        numbers_in(detail::first_line(fmt::format("{}{}/node{}/cpulist", root, kNodes, node)));
    if (std::ranges::any_of(processors, [&](int each) { return allowed.contains(each); }))
      nodes.insert(node);
  }
  return nodes;
}

/// "10 21": the distance from a node to each.
std::string distance(const std::string& root, int from, int to) {
  std::string_view line;
  const std::string text =
      detail::first_line(fmt::format("{}{}/node{}/distance", root, kNodes, from));
  line = text;
  for (int skipped = 0; skipped < to && !line.empty(); ++skipped) {
    const auto blank = line.find(' ');
    line = blank == std::string_view::npos ? "" : line.substr(blank + 1);
  }
  const auto number = line.substr(0, line.find(' '));
  return number.empty() ? "unknown" : std::string{number};
}

/// The directory of our control group (version 2).
std::string control_group(const std::string& root) {
  const auto own = detail::proc_text(root + "/proc/self/cgroup", "0:");
  const std::string path = root + "/sys/fs/cgroup" + own.value_or("/");
  // A container sees its own group as the root.
  return detail::names_in(path) ? path : root + "/sys/fs/cgroup";
}

bool is_container(const std::string& root) {
  return detail::file_state(root + "/.dockerenv") ||
         detail::file_state(root + "/run/.containerenv") ||
         !detail::first_line(root + "/run/systemd/container").empty();
}

}  // namespace

Findings check_memlock(const Snapshot& snapshot) {
  Finding found{.id = "memlock", .title = "memory that may be locked (ulimit -l)", .value = {}};
  const std::uint64_t limit = snapshot.system.memlock_bytes;
  if (limit == kUnlimited) {
    found.value = "unlimited";
    return {found};
  }
  found.value = format_bytes(limit);
  if (detail::may_lock_without_limit(snapshot.system.root)) {
    found.value += ", which does not bind this process (CAP_IPC_LOCK)";
    return {found};
  }
  if (limit >= kSmallMemlock) return {found};
  found.fix =
      "ulimit -l unlimited  # for good: echo '* - memlock unlimited' | sudo tee "
      "/etc/security/limits.d/rdma.conf, and log in again; Docker: --ulimit memlock=-1";
  if (!has_kernel_device(snapshot)) {
    found.severity = Severity::note;
    found.why = "soft0 locks no memory; adapters do, and would refuse regions (ENOMEM)";
    return {found};
  }
  found.severity = limit < kTinyMemlock ? Severity::error : Severity::warning;
  found.why = "queues and registered memory together must fit: more is ENOMEM (out_of_resources)";
  return {found};
}

Findings check_descriptors(const Snapshot& snapshot) {
  const std::uint64_t limit = snapshot.system.max_descriptors;
  Finding found{.id = "descriptors",
                .title = "file descriptors (ulimit -n)",
                .value = limit == kUnlimited ? "unlimited" : std::to_string(limit)};
  if (limit < 1024) {
    found.severity = limit < 64 ? Severity::error : Severity::warning;
    found.why = "every context, completion channel and connection takes some";
    found.fix = "ulimit -n 65536";
  }
  return {found};
}

Findings check_huge_pages(const Snapshot& snapshot) {
  const auto pages = detail::huge_pages(snapshot.system.root);
  Finding found{.id = "huge_pages", .title = "huge pages", .value = "this kernel has none"};
  if (!pages || pages->page_bytes == 0) {
    found.severity = Severity::note;
    found.why = "buffers with HugePages::reserved fail; those with HugePages::transparent do not";
    return {found};
  }
  found.value = fmt::format("{} of {} reserved pages of {} are free", pages->free, pages->total,
                            format_bytes(pages->page_bytes));
  if (pages->free > 0) return {found};
  found.severity = Severity::note;
  found.why = "only buffers with HugePages::reserved need them, and those fail";
  found.fix = fmt::format("sudo sysctl vm.nr_hugepages={}", pages->total + 64);
  return {found};
}

Findings check_numa(const Snapshot& snapshot) {
  const std::string& root = snapshot.system.root;
  const auto ours = nodes_of_process(root);
  const auto all = numbers_in(detail::first_line(root + kNodes + "/online"));
  Findings findings;
  if (all.size() > 1)
    for (const DeviceReport& device : snapshot.devices.devices) {
      if (!device.numa_node) continue;
      const int there = *device.numa_node;
      Finding found{.id = "numa." + device.name,
                    .title = "NUMA node of " + device.name,
                    .value = fmt::format("{}, where this process runs", there)};
      std::string far;
      for (const int here : ours)
        if (here != there)
          far += fmt::format("{}{} (distance {})", far.empty() ? "" : ", ", here,
                             distance(root, here, there));
      if (!far.empty()) {
        found.severity = ours.contains(there) ? Severity::note : Severity::warning;
        found.value = fmt::format("{}; this process may run on {}", there, far);
        found.why = "memory and completions cross between sockets, which costs latency";
        found.fix = fmt::format("numactl --cpunodebind={} --preferred={} PROGRAM", there, there);
      }
      findings.push_back(std::move(found));
    }
  if (findings.empty())
    findings.push_back(
        {.id = "numa",
         .title = "NUMA nodes",
         .value = all.size() > 1 ? fmt::format("{}, and no device has one", all.size()) : "one"});
  return findings;
}

Findings check_container(const Snapshot& snapshot) {
  const std::string& root = snapshot.system.root;
  Findings findings;
  const bool inside = is_container(root);
  findings.push_back(
      {.id = "container", .title = "container", .value = inside ? "yes" : "no sign of one"});
  const std::string group = control_group(root);
  const std::string memory = detail::first_line(group + "/memory.max");
  std::uint64_t bytes = kUnlimited;
  std::from_chars(memory.data(), memory.data() + memory.size(), bytes);
  if (bytes != kUnlimited) {
    Finding found{.id = "container.memory",
                  .title = "memory of the control group",
                  .value = format_bytes(bytes)};
    if (bytes < 256 * kMiB) {
      found.severity = Severity::warning;
      found.why = "registered memory and what is in /dev/shm counts against it";
      found.fix = "docker run --memory=2g …  # or systemctl set-property UNIT MemoryMax=2G";
    }
    findings.push_back(std::move(found));
  }
  const std::string rdma = detail::first_line(group + "/rdma.max");
  if (!rdma.empty() && rdma.find_first_of("0123456789", rdma.find('=')) != std::string::npos)
    findings.push_back({.id = "container.rdma",
                        .severity = Severity::warning,
                        .title = "RDMA objects of the control group",
                        .value = rdma,
                        .why = "opening devices or making queues and regions fails above it",
                        .fix = fmt::format("echo '{} hca_handle=max hca_object=max' | sudo tee "
                                           "{}/rdma.max",
                                           rdma.substr(0, rdma.find(' ')), group)});
  return findings;
}

}  // namespace verbatim::cli
