// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/soft/fault_plan.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

namespace verbatim::soft {
namespace {

using Name = std::pair<std::string_view, FaultKind>;
constexpr std::array kKinds{
    Name{"drop", FaultKind::drop},           Name{"delay", FaultKind::delay},
    Name{"rnr", FaultKind::no_receive},      Name{"fail", FaultKind::fail},
    Name{"port_down", FaultKind::port_down}, Name{"overrun", FaultKind::overrun},
    Name{"remove", FaultKind::remove_device}};

using ErrnoName = std::pair<std::string_view, int>;
constexpr std::array kErrnos{ErrnoName{"ENOMEM", ENOMEM}, ErrnoName{"EINVAL", EINVAL},
                             ErrnoName{"EAGAIN", EAGAIN}, ErrnoName{"EACCES", EACCES},
                             ErrnoName{"EPERM", EPERM},   ErrnoName{"EIO", EIO},
                             ErrnoName{"EBUSY", EBUSY},   ErrnoName{"ENODEV", ENODEV},
                             ErrnoName{"EMFILE", EMFILE}, ErrnoName{"ENOSPC", ENOSPC}};

Error bad(std::string_view item, const char* field) {
  return Error{.code = Errc::malformed, .operation = "parse_fault_plan", .field = field}.with_text(
      item);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<std::chrono::nanoseconds> duration(std::string_view text) {
  using namespace std::chrono;
  const auto digits = text.find_first_not_of("0123456789");
  const auto value = number(text.substr(0, digits));
  if (!value || digits == std::string_view::npos || *value > 1'000'000'000) return std::nullopt;
  const auto unit = text.substr(digits);
  const auto count = static_cast<std::int64_t>(*value);
  if (unit == "ns") return nanoseconds{count};
  if (unit == "us") return microseconds{count};
  if (unit == "ms") return milliseconds{count};
  if (unit == "s") return seconds{count};
  return std::nullopt;
}

std::optional<int> errno_of(std::string_view text) {
  for (const auto& [name, value] : kErrnos)
    if (name == text) return value;
  const auto value = number(text);
  if (!value || *value == 0 || *value > 4095) return std::nullopt;
  return static_cast<int>(*value);
}

/// The syntax is `kind@operation`, then `xCOUNT`, then `=VALUE`.
Result<void> parse_item(std::string_view item, FaultPlan& plan) {
  const auto at = item.find('@');
  if (at == std::string_view::npos) return std::unexpected(bad(item, "no @"));
  const auto kind_name = item.substr(0, at);
  const auto equals = item.find('=', at);
  const auto value =
      equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
  auto place = item.substr(at + 1, equals == std::string_view::npos ? equals : equals - at - 1);
  std::string_view times = "1";
  if (const auto x = place.find('x'); x != std::string_view::npos) {
    times = place.substr(x + 1);
    place = place.substr(0, x);
  }
  const auto operation = number(place);
  const auto count = number(times);
  if (!operation || *operation == 0) return std::unexpected(bad(item, "operation"));
  if (!count || *count == 0 || *count > 1'000'000) return std::unexpected(bad(item, "count"));
  if (kind_name == "call") {
    const auto os_error = errno_of(value);
    if (!os_error) return std::unexpected(bad(item, "errno"));
    plan.fail_call(*operation, *os_error);
    return {};
  }
  for (const auto& [name, kind] : kKinds) {
    if (name != kind_name) continue;
    Fault fault{.kind = kind, .operation = *operation, .count = static_cast<std::uint32_t>(*count)};
    if (kind == FaultKind::delay || kind == FaultKind::port_down) {
      const auto time = duration(value);
      if (!time) return std::unexpected(bad(item, "duration"));
      fault.delay = *time;
    } else if (kind == FaultKind::fail) {
      const auto status = number(value);
      if (!status || *status == 0 || *status > 23) return std::unexpected(bad(item, "status"));
      fault.status = static_cast<std::uint8_t>(*status);
    } else if (!value.empty()) {
      return std::unexpected(bad(item, "value"));
    }
    plan.operations.push_back(fault);
    return {};
  }
  return std::unexpected(bad(item, "kind"));
}

}  // namespace

Result<FaultPlan> parse_fault_plan(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    const auto end = text.find(';');
    const auto item = text.substr(0, end);
    if (!item.empty()) {
      if (auto parsed = parse_item(item, plan); !parsed) return std::unexpected(parsed.error());
    }
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return plan;
}

}  // namespace verbatim::soft
