// SPDX-License-Identifier: MIT OR Apache-2.0
#include "demo.hpp"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "device_report.hpp"
#include "ends.hpp"
#include "measure/interrupt.hpp"
#include "table_run.hpp"

namespace verbatim::cli {
namespace {

constexpr std::uint64_t kMessage = 1 << 20;
constexpr std::uint64_t kMessages = 64;

/// A little first: is everything that arrives what was sent?
std::uint64_t transfer(Client& client) {
  Outcome outcome;
  const Case each{.verb = Verb::write, .bytes = kMessage, .depth = 8};
  client.measure(each, {.latency = false}, {.count = kMessages}, {}, {}, outcome);
  return outcome.volume.messages;
}

void print_next() {
  const char* const program = program_invocation_name;
  fmt::print(
      "\ntry next: every verb, and a picture; who uses RDMA here, live; a program of Debian\n"
      "  {0} bench --verb all --plot bench.svg\n"
      "  {0} top\n"
      "  {0} preload -- ibv_devinfo\n",
      program);
}

/// "soft0, software device built into Verbatim: this user, this machine (VERBATIM_DEVICE names
/// it)".
std::string device_and_why(const Context& context, const std::string& asked_for) {
  std::string text = fmt::format("{}, {}", context.name(), describe(context.transport()));
  const DevicesReport report = report_devices(asked_for);
  const auto device = std::ranges::find(report.devices, context.name(), &DeviceReport::name);
  return device == report.devices.end() ? text : fmt::format("{} ({})", text, why(report, *device));
}

int show(const EndOptions& options) {
  catch_interrupts();
  Ends ends{options};
  const std::string device = device_and_why(ends.client().context(), options.device);
  if (!options.json) fmt::print("device: {}\nends:   {}\n", device, ends.description());
  std::fflush(stdout);
  const std::uint64_t moved = transfer(ends.client());
  if (!options.json)
    fmt::print("moved:  {} MiB from one process into the other's memory; the data is right\n\n",
               moved * kMessage >> 20);
  TableRun table{{.name = "demo", .effort = {.seconds = 0.2}, .is_quiet = options.json}};
  std::vector<Case> cases;
  for (const std::uint64_t bytes : {8uz, 4096uz, 65536uz, 1uz << 20})
    cases.push_back({.verb = Verb::write, .bytes = bytes});
  const int status = table.run(ends.client(), cases);
  if (options.json) {
    nlohmann::json results = nlohmann::json::array();
    for (const Row& row : table.rows()) results.push_back(to_json(row));
    fmt::print("{}\n", nlohmann::json{{"device", device}, {"results", results}}.dump(2));
    return status;
  }
  fmt::print("\n{}", bars(table.rows(), table.terminal(), speaks_utf8()));
  if (status == kGood) print_next();
  return status;
}

}  // namespace

void add_demo(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<EndOptions>();
  CLI::App& command = *app.add_subcommand(
      "demo", "Two processes move checked data: which device, how fast, and what to try next");
  command.add_option("-d,--device", options->device, "RDMA device (default: the first that works)");
  command.add_flag("--json", options->json, "One JSON document on stdout");
  command.callback(
      [options, &line] { line.status = guarded("demo", [&] { return show(*options); }); });
}

}  // namespace verbatim::cli
