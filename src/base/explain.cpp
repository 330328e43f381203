// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/explain.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/advice.hpp"
#include "base/environment.hpp"
#include "base/system_state.hpp"
#include "verbatim/base/error_guide.hpp"

namespace verbatim {
namespace detail {
namespace {

/// The causes of one error, likeliest first.
struct Explanation {
  const System& system;
  const Error& error;
  std::string text;
  std::string remedy{};  ///< If the causes do not contain one.
  std::size_t causes = 0;

  void add(std::string_view cause) {
    (text += "\n  - ") += cause;
    ++causes;
  }
  void add_meaning(std::string_view meaning) {
    if (!meaning.empty()) (text += "\n  ") += meaning;
  }
  [[nodiscard]] std::string finish() && {
    if (!remedy.empty()) (text += "\n  what to do: ") += remedy;
    return std::move(text);
  }
  [[nodiscard]] bool found_none() const { return causes == 0; }
  [[nodiscard]] bool in(std::string_view operation) const { return error.operation == operation; }
  [[nodiscard]] bool of_verbs() const {
    return std::string_view{error.operation}.starts_with("ibv_");
  }
  [[nodiscard]] bool about(std::string_view field) const { return error.field == field; }
  [[nodiscard]] bool asked_the_system() const { return error.os_error != 0; }
};

std::string count_of(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) (text += text.empty() ? "" : ", ") += name;
  return text;
}

std::string hex(std::uint64_t value) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string octal(unsigned mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode);
  return text;
}

// ---- What depends on the state of the system ----------------------------------------------------

void explain_memory(Explanation& to) {
  const auto free = proc_value(to.system.root + "/proc/meminfo", "MemAvailable");
  if (free && *free < to.error.value)
    to.add("only " + format_bytes(*free) + " of memory are available on this machine");
}

/// Memory that a device works on is locked, and the system limits how much a process may lock.
void explain_memlock(Explanation& to) {
  const std::uint64_t limit = to.system.memlock_bytes;
  const bool is_region = to.about("length");
  if (limit == kUnlimited || may_lock_without_limit(to.system.root)) {
    to.add(is_region
               ? "the limit of locked memory does not bind this process, so the device itself is "
                 "out of regions or translation entries: register fewer, larger regions"
               : "the device has no more objects of this kind or no memory for one: ask for less");
  } else if (is_region && to.error.value > limit) {
    to.add("memlock limit is " + format_bytes(limit) + "; this region needs " +
           format_bytes(to.error.value) + ": raise it with `ulimit -l` or in limits.conf");
  } else {
    const auto pinned = proc_value(to.system.root + "/proc/self/status", "VmPin");
    to.add("memlock limit is " + format_bytes(limit) + " for all regions and queues together" +
           (pinned ? ", of which " + format_bytes(*pinned) + " are used" : "") +
           ": raise it with `ulimit -l` or in limits.conf");
  }
}

void explain_huge_pages(Explanation& to) {
  const auto pages = huge_pages(to.system.root);
  if (!pages || pages->page_bytes == 0) {
    to.add("this kernel has no reserved huge pages: use HugePages::transparent");
    return;
  }
  const std::uint64_t size = pages->page_bytes;
  const std::uint64_t needed = to.error.value / size + (to.error.value % size != 0);
  std::string cause = std::to_string(pages->free) + " of " +
                      count_of(pages->total, "reserved huge page", "reserved huge pages") + " of " +
                      format_bytes(size) + " are free";
  if (needed > 0) cause += "; this needs " + std::to_string(needed);
  to.add(cause + ": raise it with `sysctl vm.nr_hugepages`, or use HugePages::transparent");
}

void explain_descriptors(Explanation& to) {
  if (to.error.os_error == ENFILE) {
    to.add("the system-wide limit of open files is reached: raise it with `sysctl fs.file-max`");
    return;
  }
  // Counting needs a descriptor itself. If none is free, the limit is reached.
  const auto open = open_descriptors(to.system.root);
  const std::uint64_t limit = to.system.max_descriptors;
  std::string cause = open ? count_of(*open, "file descriptor is", "file descriptors are") + " open"
                           : "this process has no file descriptor left";
  if (limit != kUnlimited) cause += ", the limit is " + std::to_string(limit);
  to.add(cause + ": raise it with `ulimit -n`; every context and channel needs some");
}

/// Objects of the software device take space in its directory.
void explain_space(Explanation& to) {
  const std::filesystem::path directory = to.system.root + to.system.soft_directory;
  auto space = space_at(directory);
  // If creating the directory failed, it does not exist; ask about its parent.
  if (!space && !to.of_verbs()) space = space_at(directory.parent_path());
  if (space)
    to.add("the software device's directory " + to.system.soft_directory + " has " +
           format_bytes(space->free) + " of " + format_bytes(space->total) +
           " free: make its file system larger (Docker: `--shm-size`), ask for shallower queues, "
           "remove what else is there, or set VERBATIM_SOFT_DIR to another place");
  if (to.of_verbs())
    to.add("an adapter answers the same when it has no more objects of this kind: ask for less");
}

void explain_resources(Explanation& to) {
  if (to.error.os_error == EMFILE || to.error.os_error == ENFILE) return explain_descriptors(to);
  if (to.error.os_error == ENOSPC) return explain_space(to);
  if (to.error.os_error == EFBIG) return;  // There is memory, but a limit (base/advice.cpp).
  if (to.about("huge pages")) return explain_huge_pages(to);
  if (to.of_verbs()) explain_memlock(to);
  explain_memory(to);
}

void explain_missing_device(Explanation& to) {
  const std::string_view name = to.error.text_view();
  const auto names = device_names(to.system.root);
  if (!names) {
    to.add(
        "/sys/class/infiniband does not exist: no RDMA module is loaded (`modprobe ib_uverbs` "
        "and the adapter's driver), or this container hides it");
  } else if (names->empty()) {
    to.add(
        "the kernel has no RDMA device: load the adapter's driver, or make a software device "
        "with `rdma link add rxe0 type rxe netdev <interface>`");
  } else if (name.empty() || name.contains(' ')) {  // The error names no device.
    to.add("no device has an ACTIVE port and everything else that was asked for; the devices are " +
           joined(*names));
  } else if (std::ranges::find(*names, name) != names->end()) {
    to.add(
        "the kernel has this device, but libibverbs does not: its provider library is missing "
        "(Debian and Ubuntu: ibverbs-providers)");
  } else {
    to.add("no device has this name; the devices are " + joined(*names));
  }
  if (names && !names->empty() && device_nodes(to.system.root).empty())
    to.add("there is no /dev/infiniband/uverbs*: load ib_uverbs, or give the container the device");
}

void explain_missing_library(Explanation& to) {
  if (const char* path = environment("VERBATIM_LIBIBVERBS"); path != nullptr && *path != '\0')
    to.add(std::string{"VERBATIM_LIBIBVERBS names "} + path + ", which cannot be loaded");
  to.add(
      "libibverbs.so.1 is not installed: install rdma-core (Debian and Ubuntu: libibverbs1 and "
      "ibverbs-providers)");
}

void add_no_nodes(Explanation& to) {
  to.add(
      "there is no /dev/infiniband/uverbs*: load ib_uverbs, or give the container the device "
      "(`--device=/dev/infiniband`)");
}

void add_closed_node(Explanation& to, const DeviceNode& node) {
  to.add(node.path + " has mode " + octal(node.mode) +
         " and this user may not read and write it: join its group or change the udev rule");
}

/// With a limit of zero, the kernel refuses the right to lock any memory, not the memory.
bool may_lock_nothing(const Explanation& to) {
  return to.error.os_error == EPERM && to.system.memlock_bytes == 0 &&
         !may_lock_without_limit(to.system.root);
}

void explain_permission(Explanation& to) {
  if (!to.asked_the_system() || !to.of_verbs()) return;
  if (!to.in("ibv_open_device") && may_lock_nothing(to))
    return to.add("memlock limit is 0: raise it with `ulimit -l` or in limits.conf");
  // A registration uses a device that is already open.
  if (to.in("ibv_reg_mr")) return;
  const auto nodes = device_nodes(to.system.root);
  if (nodes.empty()) add_no_nodes(to);
  for (const auto& node : nodes)
    if (node.usable)
      to.add(node.path + " has mode " + octal(node.mode) +
             ", which allows it: a device cgroup (container) or security module does not");
    else
      add_closed_node(to, node);
}

/// libibverbs looks for another node if it may not open the one it knows, and says ENOENT in the
/// end.
void explain_unopened_device(Explanation& to) {
  const auto nodes = device_nodes(to.system.root);
  if (nodes.empty()) add_no_nodes(to);
  for (const auto& node : nodes)
    if (!node.usable) add_closed_node(to, node);
}

void explain_port(Explanation& to) {
  const std::string_view state = to.error.text_view();
  if (state == "DOWN")
    to.add(
        "the port is DOWN: no cable, the switch port is off, or (RoCE) the network interface is "
        "down: `ip link set <interface> up`");
  if (state == "INIT")
    to.add("the port is in INIT: no subnet manager has configured it (start opensm somewhere)");
  if (state == "ARMED") to.add("the subnet manager is about to make the port ACTIVE: try again");
  for (const auto& line : port_states(to.system.root))
    to.add(line.device + " port " + line.port + " is now in state " + line.state);
}

void explain_unmapped(Explanation& to) {
  std::uint64_t address = 0;
  auto text = to.error.text_view();
  if (text.starts_with("0x")) text.remove_prefix(2);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), address, 16);
  if (failed == std::errc{} && end == text.data() + text.size()) {
    const auto mapping = mapping_of(to.system.root, address, to.error.value);
    if (mapping.first_unmapped)
      to.add("nothing readable is mapped at " + hex(*mapping.first_unmapped) + ", " +
             format_bytes(*mapping.first_unmapped - address) + " into the region");
    if (mapping.first_read_only)
      to.add("the memory at " + hex(*mapping.first_read_only) +
             " is read-only: use register_read_only()");
  }
  to.add(
      "the region covers memory that is not (or no longer) mapped, or that cannot be pinned: "
      "of a device, or of a file on a DAX file system");
}

/// Adds causes found on this machine.
void explain_from_system(Explanation& to) {
  if (to.in("ibv_reg_mr") && to.error.os_error == EFAULT) return explain_unmapped(to);
  switch (to.error.code) {
    case Errc::out_of_resources: return explain_resources(to);
    case Errc::permission_denied: return explain_permission(to);
    case Errc::not_found:
      if (to.in("dlopen")) return explain_missing_library(to);
      if (to.in("open_device")) return explain_missing_device(to);
      if (to.in("ibv_open_device")) return explain_unopened_device(to);
      return;
    case Errc::not_ready:
      if (to.about("port")) explain_port(to);
      return;
    case Errc::invalid_argument:
    case Errc::limit_exceeded:
    case Errc::unsupported:
    case Errc::would_block:
    case Errc::busy:
    case Errc::timed_out:
    case Errc::malformed:
    case Errc::incompatible:
    case Errc::forked:
    case Errc::device_failed:
    case Errc::work_failed:
    case Errc::cancelled:
    case Errc::broken:
    case Errc::closed:
    case Errc::peer_closed:
    case Errc::peer_lost:
    case Errc::stale:
    case Errc::driver: return;
  }
}

// ---- What can be said without looking at the system ---------------------------------------------

/// Recognises a client that is not one of ours by its first bytes.
void explain_stranger(Explanation& to) {
  if (to.error != Errc::malformed || !to.about("frame magic")) return;
  std::string first;
  for (int byte = 0; byte < 4; ++byte)
    first += static_cast<char>(to.error.value >> (8 * byte) & 0xff);
  static constexpr std::string_view kHttp[] = {"GET ", "POST", "HEAD", "PUT ", "OPTI", "PRI "};
  if (std::ranges::find(kHttp, first) != std::end(kHttp))
    to.add(
        "an HTTP client (a browser, a health check) connected to this port: give it another port");
  else if (first == "HTTP")
    to.add("an HTTP server is at this address: the port is wrong");
  else if (first.starts_with("\x16\x03"))
    to.add("the other side speaks TLS: the port is wrong, or belongs to something else");
  else if (first == "SSH-")
    to.add("the other side speaks SSH: the port is wrong");
  else if (first.starts_with("VB"))
    to.add("the peer runs a release with another handshake: run the same on both sides");
  else
    to.add("the other side is no program of this library: a port scan, or the port is wrong");
}

/// What happened to the port while the work was under way. The text of the error names the event.
void explain_event(Explanation& to) {
  struct Row {
    std::string_view event;
    std::string_view cause;
  };
  static constexpr Row kRows[] = {
      {"port error",
       "the port went down meanwhile: cable, switch, or (RoCE) the network interface; reconnect "
       "when "
       "it is ACTIVE again"},
      {"GID change",
       "the addresses of the port changed meanwhile (RoCE: an IP address of the interface), and "
       "the connection used an old one: reconnect"},
      {"LID change",
       "the subnet manager gave the port another LID meanwhile, and the peer knows the old one: "
       "reconnect"},
      {"partition key change",
       "the subnet manager changed the port's partitions meanwhile: check that both sides still "
       "share one, and reconnect"},
  };
  for (const Row& row : kRows)
    if (to.error.text_view() == row.event) to.add(row.cause);
}

void explain_setting(Explanation& to) {
  const std::string_view variable = to.error.operation;
  if (variable.starts_with("VERBATIM_"))
    to.add("the environment variable " + std::string{variable} + " " + to.error.field +
           ": correct or unset it");
}

void add_limits(Explanation& to) {
  const auto& [code, os_error, operation, field, value, limit, name] = to.error;
  if (code == Errc::limit_exceeded)
    to.add(std::string{field} + " is " + std::to_string(value) + ", but " + std::to_string(limit) +
           " is the maximum: ask for less");
  if (code != Errc::invalid_argument || os_error == EFAULT || !to.found_none()) return;
  if (os_error == 0 && *field != '\0')
    to.add(std::string{field} + " is not acceptable: fix the call");
  else
    to.add("the driver refuses an argument and does not say which: `dmesg | tail` may show it");
}

void add_guide(Explanation& to, const ErrorGuide& guide) {
  for (const auto cause : guide.causes()) to.add(cause);
}

void explain_status(Explanation& to) {
  const ErrorGuide& status = guide_to(status_of(to.error));
  add_guide(to, status.causes().empty() ? guide_to(Errc::work_failed) : status);
  to.remedy = remedy_of(status_of(to.error));
}

void explain_generally(Explanation& to) {
  const ErrorGuide& guide = guide_to(to.error.code);
  add_guide(to, guide);
  to.remedy = guide.remedy;
}

}  // namespace

std::string explain_on(const System& system, const Error& error) {
  Explanation explanation{.system = system, .error = error, .text = to_string(error)};
  if (error == Errc::work_failed) explanation.add_meaning(guide_to(status_of(error)).meaning);
  explain_event(explanation);
  if (error == Errc::work_failed) explain_status(explanation);
  explain_from_system(explanation);
  explain_stranger(explanation);
  explain_setting(explanation);
  for (const Advice& row : advice())
    if (row.fits(error)) explanation.add(row.text);
  add_limits(explanation);
  if (explanation.found_none()) explain_generally(explanation);
  return std::move(explanation).finish();
}

}  // namespace detail

std::string explain(const Error& error) {
  return detail::explain_on(detail::System::current(), error);
}

}  // namespace verbatim
