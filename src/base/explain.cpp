// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/base/explain.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "base/environment.hpp"
#include "base/system_state.hpp"

namespace verbatim {
namespace detail {
namespace {

/// The causes of one error, collected likeliest first.
struct Explanation {
  const System& system;
  const Error& error;
  std::string text;

  std::size_t causes = 0;

  void add(std::string_view cause) {
    (text += "\n  - ") += cause;
    ++causes;
  }
  [[nodiscard]] bool found_none() const { return causes == 0; }
  [[nodiscard]] bool in(std::string_view operation) const { return error.operation == operation; }
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

/// What a device works on stays in memory, and the system limits how much of that there may be.
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

void explain_resources(Explanation& to) {
  if (to.error.os_error == EMFILE || to.error.os_error == ENFILE) {
    std::string cause =
        count_of(open_descriptors(to.system.root), "file descriptor is", "file descriptors are") +
        " open";
    if (to.system.max_descriptors != kUnlimited)
      cause += ", the limit is " + std::to_string(to.system.max_descriptors);
    to.add(cause + ": raise it with `ulimit -n`; every context and channel needs some");
    return;
  }
  if (to.error.os_error == ENOSPC) {
    to.add(
        "no space is left in the software device's directory (/dev/shm/verbatim-<uid>, or what "
        "VERBATIM_SOFT_DIR names): make its file system larger (Docker: `--shm-size`), ask for "
        "shallower queues, or remove what else is there");
    return;
  }
  if (to.about("huge pages")) return explain_huge_pages(to);
  if (std::string_view{to.error.operation}.starts_with("ibv_")) explain_memlock(to);
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
  } else if (name.empty() || name.contains(' ')) {  // No name of a device was given.
    to.add("no device has an ACTIVE port and what else is asked for: there is " + joined(*names));
  } else if (std::ranges::find(*names, name) != names->end()) {
    to.add(
        "the kernel has this device, but libibverbs does not: its provider library is missing "
        "(Debian and Ubuntu: ibverbs-providers)");
  } else {
    to.add("no device has this name: there is " + joined(*names));
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

void explain_permission(Explanation& to) {
  if (to.in("ibv_reg_mr") || !to.asked_the_system()) return;  // The device was open already.
  const auto nodes = device_nodes(to.system.root);
  if (nodes.empty())
    to.add(
        "there is no /dev/infiniband/uverbs*: load ib_uverbs, or give the container the device "
        "(`--device=/dev/infiniband`)");
  for (const auto& node : nodes)
    to.add(node.path + " has mode " + octal(node.mode) +
           (node.usable ? ", which allows it: a device cgroup (container) or security module does "
                          "not"
                        : " and this user may not read and write it: join its group or change the "
                          "udev rule"));
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

/// Adds what was found out about this very machine.
void explain_from_system(Explanation& to) {
  if (to.in("ibv_reg_mr") && to.error.os_error == EFAULT) return explain_unmapped(to);
  switch (to.error.code) {
    case Errc::out_of_resources: return explain_resources(to);
    case Errc::permission_denied: return explain_permission(to);
    case Errc::not_found:
      if (to.in("dlopen")) return explain_missing_library(to);
      if (to.in("open_device")) return explain_missing_device(to);
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
    case Errc::stale:
    case Errc::driver: return;
  }
}

// ---- What can be said without looking -----------------------------------------------------------

struct Advice {
  Errc code;
  std::string_view operation;  ///< "" for any.
  std::string_view field;      ///< "" for any.
  std::string_view text;
};

/// The rows that match, in this order: special before general.
constexpr Advice kAdvice[] = {
    {Errc::invalid_argument, "ibv_modify_qp", "state",
     "a queue pair goes RESET, INIT, RTR, RTS; from any of them to ERR, and back to RESET"},
    {Errc::invalid_argument, "ibv_reg_mr", "access",
     "remote_write and remote_atomic need local_write as well; a length of 0 is refused"},
    {Errc::invalid_argument, "ibv_modify_qp", "",
     "the attributes do not fit the change of state, or the path leads nowhere (GID index, port)"},
    {Errc::out_of_resources, "pthread_create", "",
     "the user has too many threads: raise it with `ulimit -u`"},
    {Errc::limit_exceeded, "", "completion queue depth",
     "the completion queue must hold what all its queue pairs can have in flight: make it deeper, "
     "or let it grow (CompletionQueueGrowth::resize)"},
    {Errc::not_found, "", "port", "ports count from 1"},
    {Errc::not_found, "", "partition_key",
     "the subnet manager did not make this port a member of that partition"},
    {Errc::not_found, "", "gid_index",
     "the GID table has no such entry, or it is empty: `rdma link`, `show_gids`"},
    {Errc::not_found, "numa_node", "",
     "the system does not say where the device is attached, as in most virtual machines"},
    {Errc::not_found, "numa_available", "",
     "libnuma.so.1 is not installed, or the kernel has no NUMA"},
    {Errc::permission_denied, "ibv_reg_mr", "",
     "the memory is mapped read-only, and the region asks for local_write: use "
     "register_read_only()"},
    {Errc::permission_denied, "", "access",
     "the region or the queue pair was made without that right"},
    {Errc::unsupported, "dlopen", "", "rdma-core is too old and lacks this function: upgrade it"},
    {Errc::unsupported, "ibv_reg_dmabuf_mr", "",
     "dmabuf regions need a kernel from 5.12 on and an adapter that can use them"},
    {Errc::unsupported, "", "type",
     "the device has no queue pairs of this type (iWARP needs rdma_cm, EFA has only SRD and UD)"},
    {Errc::malformed, "parse_fault_plan", "",
     "the plan (VERBATIM_SOFT_FAULTS) is at fault: items like drop@17x3, delay@5=2ms, rnr@9x2, "
     "fail@4=12, port_down@30=5ms, overrun@6, remove@99 or call@3=ENOMEM, separated by ;"},
    {Errc::malformed, "", "version",
     "the peer runs a release with another version of the record: run the same on both sides"},
    {Errc::malformed, "", "magic", "these bytes are no endpoint at all: is the stream in step?"},
    {Errc::malformed, "", "length", "the record was cut short, or something follows it"},
    {Errc::incompatible, "", "type", "one side is RC, UC or UD and the other is not"},
    {Errc::incompatible, "", "transport",
     "one side is on the built-in software device, the other on a real one; VERBATIM_DEVICE "
     "chooses"},
    {Errc::incompatible, "", "fabric_id",
     "both sides are on software devices, but not on the same fabric"},
    {Errc::incompatible, "", "link_layer", "one port is InfiniBand, the other Ethernet"},
    {Errc::incompatible, "", "partition_key",
     "the ports are in different partitions, or both are only limited members of the same"},
    {Errc::incompatible, "", "gid",
     "the ports have no kind of address in common: both need RoCEv2 with IPv4, both RoCEv2 with "
     "IPv6, or both RoCEv1; an interface without an IP address has only a link-local one"},
    {Errc::incompatible, "", "lid",
     "a port has no LID: no subnet manager has configured it (start opensm somewhere)"},
    {Errc::incompatible, "", "mtu", "the ports' MTUs differ: set the same on both"},
    {Errc::incompatible, "", "nonce",
     "the peer was restarted or its queue pair recycled: exchange endpoints again"},
};

/// What holds for a code whatever the case, where nothing better is known.
constexpr Advice kGeneral[] = {
    {Errc::permission_denied, "", "", "the call needs a right that this process does not have"},
    {Errc::out_of_resources, "", "", "objects of this kind that are no longer needed hold it"},
    {Errc::not_found, "", "", "the name or number is wrong, or the thing went away"},
    {Errc::unsupported, "", "",
     "this device, kernel or library cannot do it: Context::capabilities() says what it can"},
    {Errc::would_block, "", "",
     "the queue is full: take completions, then try again; or make the queue deeper"},
    {Errc::busy, "", "", "something made from the object is still alive: destroy that first"},
    {Errc::timed_out, "", "",
     "nothing came before the deadline: the peer is gone, slow, or not connected yet"},
    {Errc::not_ready, "", "", "wait for the state the call needs, or choose another port"},
    {Errc::malformed, "", "", "the sender is no such peer, or the bytes were damaged on the way"},
    {Errc::incompatible, "", "", "the two endpoints cannot be connected as they are"},
    {Errc::forked, "", "",
     "the device belongs to the process that opened it: open it again in this one, after fork()"},
    {Errc::device_failed, "", "",
     "the device or driver was reset, unplugged or broke: drop all its objects and open it again"},
    {Errc::work_failed, "", "",
     "the device or the peer refused the work, and the queue pair is in error: the status names "
     "the "
     "side; recycle() the channel to connect anew"},
    {Errc::cancelled, "", "", "cancel() or a stop request ended the channel's work on purpose"},
    {Errc::broken, "", "",
     "an earlier failure ended the channel: cause() tells it; recycle() makes it usable again"},
    {Errc::closed, "", "",
     "the channel was closed or destroyed while the operation was on its way"},
    {Errc::stale, "", "", "the result was taken before, or the scope of the operation has ended"},
    {Errc::driver, "", "", "the kernel's log may say more: `dmesg | tail`"},
};

void add_limits(Explanation& to) {
  const auto& [code, os_error, operation, field, value, limit, name] = to.error;
  if (code == Errc::limit_exceeded)
    to.add(std::string{field} + " is " + std::to_string(value) + ", and " + std::to_string(limit) +
           " is the most there can be: ask for less");
  if (code != Errc::invalid_argument || os_error == EFAULT) return;
  if (os_error == 0 && *field != '\0')
    to.add(std::string{field} + " is not acceptable as it is: fix the call");
  else
    to.add("the driver refuses an argument and does not say which: `dmesg | tail` may");
}

bool matches(const Advice& advice, const Explanation& to) {
  return advice.code == to.error.code && (advice.operation.empty() || to.in(advice.operation)) &&
         (advice.field.empty() || to.about(advice.field));
}

}  // namespace

std::string explain_on(const System& system, const Error& error) {
  Explanation explanation{.system = system, .error = error, .text = to_string(error)};
  explain_from_system(explanation);
  for (const auto& advice : kAdvice)
    if (matches(advice, explanation)) explanation.add(advice.text);
  add_limits(explanation);
  if (explanation.found_none())
    for (const auto& advice : kGeneral)
      if (matches(advice, explanation)) explanation.add(advice.text);
  return std::move(explanation.text);
}

}  // namespace detail

std::string explain(const Error& error) {
  return detail::explain_on(detail::System::current(), error);
}

}  // namespace verbatim
