// SPDX-License-Identifier: MIT OR Apache-2.0
#include "doctor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "checks.hpp"
#include "finding.hpp"
#include "terminal.hpp"

namespace verbatim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
  bool json = false;
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

int examine(const DoctorOptions& options) {
  const Findings findings = check_everything(take_snapshot());
  if (options.json) {
    print_json(findings);
  } else {
    const Terminal terminal{STDOUT_FILENO};
    for (const Finding& finding : findings) print_finding(terminal, finding);
    print_summary(findings);
  }
  return has_error(findings) ? kBad : kGood;
}

}  // namespace

void add_doctor(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App& command =
      *app.add_subcommand("doctor", "Find out what is wrong with RDMA here, and what fixes it");
  command.add_flag("--json", options->json, "Print JSON");
  command.footer("Status 1 if a finding is an error.");
  command.callback([options, &line] { line.status = examine(*options); });
}

}  // namespace verbatim::cli
