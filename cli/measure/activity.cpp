// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/activity.hpp"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "measure/failure.hpp"
#include "units.hpp"

namespace verbatim::cli {
namespace {

std::string printable(std::string text) {
  std::ranges::replace_if(text, [](char each) { return each < ' ' || each > '~'; }, '?');
  return text;
}

std::string command_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/comm", pid)};
  std::string name;
  std::getline(file, name);
  return printable(std::move(name));
}

/// Since the process started; nothing if it is gone.
std::optional<double> age_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::ifstream system{"/proc/uptime"};
  std::string text;
  double uptime = 0;
  if (!std::getline(file, text) || !(system >> uptime)) return std::nullopt;
  // The name is in parentheses and may contain anything; the start is the 20th field behind it.
  std::istringstream fields{text.substr(text.rfind(')') + 1)};
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;
  if (!fields) return std::nullopt;
  const double start =
      std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(0.0, uptime - start);
}

std::string age_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f}s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f}m", seconds / 60);
  if (seconds < 86400) return fmt::format("{:.0f}h", seconds / 3600);
  return fmt::format("{:.0f}d", seconds / 86400);
}

const char* state_name(std::uint32_t state) {
  constexpr std::array kNames = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state < kNames.size() ? kNames[state] : "?";
}

const char* type_name(std::uint32_t type) {
  switch (type) {
    case IBV_QPT_RC: return "RC";
    case IBV_QPT_UC: return "UC";
    case IBV_QPT_UD: return "UD";
    default: return "?";
  }
}

const PortCounters* same_port(const Activity* activity, const PortCounters& port) {
  if (activity == nullptr) return nullptr;
  const auto found = std::ranges::find_if(activity->ports, [&](const PortCounters& each) {
    return each.device == port.device && each.port == port.port;
  });
  return found == activity->ports.end() ? nullptr : &*found;
}

const soft::InspectedProcess* same_process(const Activity* activity,
                                           const soft::InspectedProcess& process) {
  if (activity == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(activity->soft.processes, [&](const soft::InspectedProcess& each) {
        return each.slot == process.slot && each.pid == process.pid;
      });
  return found == activity->soft.processes.end() ? nullptr : &*found;
}

double seconds_between(const Activity& now, const Activity* before) {
  if (before == nullptr) return 0;
  return std::chrono::duration<double>(now.when - before->when).count();
}

/// Nothing without a time before, or where a counter was set back.
std::optional<double> rate(std::uint64_t now, std::uint64_t before, double seconds) {
  if (seconds <= 0 || now < before) return std::nullopt;
  return static_cast<double>(now - before) / seconds;
}

/// Messages that the process has received: the numbers of its queue pairs go round.
std::optional<double> receive_rate(const soft::InspectedProcess& now,
                                   const soft::InspectedProcess* before, double seconds) {
  if (before == nullptr || seconds <= 0) return std::nullopt;
  std::uint64_t taken = 0;
  for (const auto& each : now.queue_pairs) {
    const auto same =
        std::ranges::find(before->queue_pairs, each.number, &soft::InspectedQueuePair::number);
    if (same != before->queue_pairs.end())
      taken += static_cast<std::uint32_t>(each.receives_taken - same->receives_taken);
  }
  return static_cast<double>(taken) / seconds;
}

std::string rate_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}/s", *value) : "-";
}

std::string mebi(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / double{kMiB});
}

void add_ports(const Activity& now, const Activity* before, std::vector<std::string>& lines) {
  lines.push_back(fmt::format("RDMA ports: {}", now.ports.empty() ? "none" : ""));
  const double seconds = seconds_between(now, before);
  for (const PortCounters& port : now.ports) {
    const PortCounters* const former = same_port(before, port);
    lines.push_back(port.port == 0 ? fmt::format("  {}", port.device)
                                   : fmt::format("  {} port {}  {}", port.device, port.port,
                                                 printable(port.state)));
    for (const auto& [name, value] : port.values) {
      if (value == 0) continue;
      std::optional<double> each;
      if (former != nullptr && former->values.contains(name))
        each = rate(value, former->values.at(name), seconds);
      lines.push_back(
          fmt::format("    {:<32} {:>20} {:>14}", printable(name), value, rate_text(each)));
    }
  }
}

void add_queue_pairs(const soft::InspectedProcess& process, std::vector<std::string>& lines) {
  for (const auto& each : process.queue_pairs)
    lines.push_back(fmt::format(
        "          qp {:#08x} {} {:<5} to {:#08x}  receives posted {} taken {}",
        static_cast<std::uint32_t>(each.number), type_name(each.type), state_name(each.state),
        static_cast<std::uint32_t>(each.peer), each.receives_posted, each.receives_taken));
}

std::string process_line(const Activity& now, const Activity* before,
                         const soft::InspectedProcess& process) {
  const auto command = now.commands.find(process.pid);
  const auto age = now.ages_s.find(process.pid);
  const std::string name = !process.is_alive               ? "(dead)"
                           : command == now.commands.end() ? "?"
                                                           : command->second;
  const std::string head =
      fmt::format("{:>8} {:<16} {:>5}", process.pid, name,
                  age == now.ages_s.end() || !process.is_alive ? "-" : age_text(age->second));
  if (process.is_other_build) return head + "  another build of the library";
  const auto connected = std::ranges::count(process.queue_pairs, std::uint32_t{IBV_QPS_RTS},
                                            &soft::InspectedQueuePair::state);
  return fmt::format("{} {:>5} {:>5} {:>5} {:>6} {:>9} {:>9} {:>11}", head,
                     process.queue_pairs.size(), connected, process.completion_queues,
                     process.regions, mebi(process.region_bytes), mebi(process.object_bytes),
                     rate_text(receive_rate(process, same_process(before, process),
                                            seconds_between(now, before))));
}

}  // namespace

Activity look_around() {
  Activity result{.when = std::chrono::steady_clock::now(),
                  .ports = read_counters(),
                  .soft = need(soft::inspect()),
                  .commands = {},
                  .ages_s = {}};
  for (const auto& process : result.soft.processes) {
    if (process.pid <= 0) continue;
    if (auto name = command_of(process.pid); !name.empty())
      result.commands[process.pid] = std::move(name);
    if (const auto age = age_of(process.pid)) result.ages_s[process.pid] = *age;
  }
  return result;
}

std::vector<std::string> view_of(const Activity& now, const Activity* before,
                                 const ViewOptions& options, unsigned columns) {
  std::vector<std::string> lines;
  add_ports(now, before, lines);
  lines.emplace_back();
  const auto& processes = now.soft.processes;
  lines.push_back(fmt::format("soft0: {} in {}",
                              processes.empty() ? "no process"
                              : processes.size() == 1
                                  ? "1 process"
                                  : fmt::format("{} processes", processes.size()),
                              printable(now.soft.directory)));
  if (!processes.empty())
    lines.push_back(fmt::format("{:>8} {:<16} {:>5} {:>5} {:>5} {:>5} {:>6} {:>9} {:>9} {:>11}",
                                "pid", "command", "age", "qps", "RTS", "cqs", "mrs", "MiB reg.",
                                "MiB buf.", "received"));
  for (const auto& process : processes) {
    lines.push_back(process_line(now, before, process));
    if (options.queue_pairs) add_queue_pairs(process, lines);
  }
  for (std::string& line : lines)
    if (line.size() > columns) line.resize(columns);
  return lines;
}

nlohmann::json to_json(const Activity& now, const Activity* before) {
  using nlohmann::json;
  const double seconds = seconds_between(now, before);
  json ports = json::array();
  for (const PortCounters& port : now.ports) {
    json rates = json::object();
    const PortCounters* const former = same_port(before, port);
    for (const auto& [name, value] : port.values)
      if (former != nullptr && former->values.contains(name))
        if (const auto each = rate(value, former->values.at(name), seconds)) rates[name] = *each;
    ports.push_back({{"device", port.device},
                     {"port", port.port},
                     {"state", port.state},
                     {"counters", port.values},
                     {"per_second", rates}});
  }
  json processes = json::array();
  for (const auto& process : now.soft.processes) {
    json pairs = json::array();
    for (const auto& each : process.queue_pairs)
      pairs.push_back({{"number", static_cast<std::uint32_t>(each.number)},
                       {"type", type_name(each.type)},
                       {"state", state_name(each.state)},
                       {"peer", static_cast<std::uint32_t>(each.peer)},
                       {"receives_posted", each.receives_posted},
                       {"receives_taken", each.receives_taken}});
    json entry = {{"pid", process.pid},
                  {"slot", process.slot},
                  {"alive", process.is_alive},
                  {"other_build", process.is_other_build},
                  {"queue_pairs", pairs},
                  {"completion_queues", process.completion_queues},
                  {"regions", process.regions},
                  {"region_bytes", process.region_bytes},
                  {"buffer_bytes", process.object_bytes},
                  {"file_bytes", process.file_bytes}};
    if (const auto found = now.commands.find(process.pid); found != now.commands.end())
      entry["command"] = found->second;
    if (const auto found = now.ages_s.find(process.pid); found != now.ages_s.end())
      entry["age_s"] = found->second;
    if (const auto each = receive_rate(process, same_process(before, process), seconds))
      entry["received_per_second"] = *each;
    processes.push_back(std::move(entry));
  }
  return {{"ports", ports},
          {"soft", {{"directory", now.soft.directory}, {"processes", processes}}}};
}

}  // namespace verbatim::cli
