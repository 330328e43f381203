// SPDX-License-Identifier: MIT OR Apache-2.0
#include "doctor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "checks.hpp"
#include "doctor_listen.hpp"
#include "finding.hpp"
#include "reach.hpp"
#include "terminal.hpp"
#include "with_port.hpp"

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
  bool json = false;
  std::string peer{};  ///< Or "".
  double timeout_s = 2;
  DoctorListenOptions listen{};
  CLI::Option* listens = nullptr;
};

Style style_of(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok: return Style::good;
    case Severity::note: return Style::plain;
    case Severity::warning: return Style::warning;
    case Severity::error: return Style::bad;
  }
  return Style::plain;
}

void print_finding(const Terminal& terminal, const Finding& finding) {
  const std::string word = fmt::format("{:<7}", to_string(finding.severity));
  fmt::print("{}  {}: {}\n", terminal.paint(style_of(finding.severity), word), finding.title,
             finding.value);
  if (!finding.why.empty()) fmt::print("         why: {}\n", finding.why);
  if (!finding.fix.empty())
    fmt::print("         fix: {}\n", terminal.paint(Style::bold, finding.fix));
}

std::ptrdiff_t count_of(const Findings& findings, Severity severity) {
  return std::ranges::count(findings, severity, &Finding::severity);
}

void print_summary(const Findings& findings) {
  const auto errors = count_of(findings, Severity::error);
  const auto warnings = count_of(findings, Severity::warning);
  fmt::print("\n{} {}, {} {}\n", errors, errors == 1 ? "error" : "errors", warnings,
             warnings == 1 ? "warning" : "warnings");
}

void print_json(const Findings& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(to_json(finding));
  const Json all = {{"good", !has_error(findings)}, {"findings", std::move(list)}};
  fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
}

/// On standard error, and only where somebody looks: what is being waited for.
void announce(const DoctorOptions& options) {
  if (const Terminal terminal{STDERR_FILENO}; terminal.is_live() && !options.peer.empty())
    fmt::print(stderr, "testing each pair of addresses with {} …\n",
               with_port(options.peer, kDoctorPort));
}

int examine(const DoctorOptions& options) {
  const Terminal terminal{STDOUT_FILENO};
  Findings all;
  const auto tell = [&](const Finding& finding) {
    if (!options.json) {
      print_finding(terminal, finding);
      std::fflush(stdout);
    }
    all.push_back(finding);
  };
  const Snapshot snapshot = take_snapshot();
  std::ranges::for_each(check_everything(snapshot), tell);
  if (!options.peer.empty()) {
    announce(options);
    reach(options.peer, usable_candidates(snapshot.devices), options.listen.reach, tell);
  }
  if (options.json)
    print_json(all);
  else
    print_summary(all);
  return has_error(all) ? kBad : kGood;
}

int run_doctor(DoctorOptions& options) {
  const auto timeout = std::chrono::duration<double>{options.timeout_s};
  options.listen.reach.pair_timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout);
  if (options.listens->count() == 0) return examine(options);
  // The value may be left out.
  if (options.listen.address.empty()) options.listen.address = "127.0.0.1";
  options.listen.json = options.json;
  return listen_and_serve(options.listen);
}

}  // namespace

void add_doctor(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App& command =
      *app.add_subcommand("doctor", "Find out what is wrong with RDMA here, and what fixes it");
  CLI::Option* const peer = command.add_option(
      "PEER", options->peer,
      fmt::format("HOST[:PORT] of a doctor that listens: each pair of addresses is tested with it "
                  "(default port: {})",
                  kDoctorPort));
  DoctorListenOptions& listen = options->listen;
  options->listens = command
                         .add_option("--listen", listen.address,
                                     "Answer doctors that name this machine as their PEER; at "
                                     "this address (default: 127.0.0.1, 0.0.0.0 for all)")
                         ->expected(0, 1)
                         ->excludes(peer);
  command
      .add_option("--port", listen.port,
                  fmt::format("Where to listen (default: {}, 0 for any that is free)", kDoctorPort))
      ->check(CLI::Range(0, 65535))
      ->needs(options->listens);
  command.add_option("--clients", listen.clients, "Stop after this many clients (default: never)")
      ->check(CLI::Range(1, 1000000))
      ->needs(options->listens);
  command
      .add_option("--timeout", options->timeout_s, "Seconds for a pair of addresses (default: 2)")
      ->check(CLI::Range(0.1, 600.0));
  command.add_flag("--json", options->json, "Print JSON; of --listen, an object in each line");
  command.footer("Status 1 if a finding is an error; with PEER also if no pair works.");
  command.callback([options, &line] { line.status = run_doctor(*options); });
}

}  // namespace verbatim::cli
