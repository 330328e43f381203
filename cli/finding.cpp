// SPDX-License-Identifier: MIT OR Apache-2.0
#include "finding.hpp"

#include <algorithm>

namespace verbatim::cli {

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok: return "ok";
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: return "error";
  }
  return "unknown";
}

nlohmann::ordered_json to_json(const Finding& finding) {
  return {{"id", finding.id},       {"severity", to_string(finding.severity)},
          {"title", finding.title}, {"value", finding.value},
          {"why", finding.why},     {"fix", finding.fix}};
}

bool has_error(const Findings& findings) noexcept {
  return std::ranges::any_of(findings,
                             [](const Finding& each) { return each.severity == Severity::error; });
}

}  // namespace verbatim::cli
