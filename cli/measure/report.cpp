// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "units.hpp"

namespace verbatim::cli {
namespace {

double scale(const Row& row) noexcept { return is_round_trip(row.what.verb) ? 2000.0 : 1000.0; }

std::string cell(bool is_there, double value) { return is_there ? short_number(value) : "-"; }

std::string optional_cell(const std::optional<double>& value) {
  return value ? short_number(*value) : "-";
}

struct Bar {
  std::string name;
  double solid;   ///< Of the width.
  double shaded;  ///< Up to there; at least `solid`.
  std::string value;
};

std::string draw(const std::vector<Bar>& all, const Terminal& terminal, bool is_utf8) {
  const std::string_view full = is_utf8 ? "\u2588" : "#";
  const std::string_view light = is_utf8 ? "\u2591" : ".";
  std::size_t names = 0;
  for (const Bar& bar : all) names = std::max(names, bar.name.size());
  const unsigned columns = std::clamp(terminal.columns(), 40u, 100u);
  const double width = static_cast<double>(columns) - static_cast<double>(names) - 20;
  std::string out;
  for (const Bar& bar : all) {
    const auto solid = std::max(1L, std::lround(bar.solid * width));
    const auto shaded = std::max(solid, std::lround(bar.shaded * width));
    std::string blocks;
    for (long i = 0; i < solid; ++i) blocks += full;
    for (long i = solid; i < shaded; ++i) blocks += light;
    out += fmt::format("  {:>{}} {} {}\n", bar.name, names, terminal.paint(Style::good, blocks),
                       bar.value);
  }
  return out;
}

std::string name_of(const Row& row) {
  return fmt::format("{} {}", to_string(row.what.verb), short_size(row.what.bytes));
}

std::string latency_bars(std::span<const Row> rows, const Terminal& terminal, bool is_utf8) {
  double least = 1e18;
  double most = 0;
  for (const Row& row : rows) {
    if (!row.has_latency()) continue;
    least = std::min(least, row.microseconds(0.5));
    most = std::max(most, row.microseconds(0.99));
  }
  if (most <= 0) return {};
  least = std::max(least / 2, 1e-4);
  const double range = std::max(std::log(most / least), 0.1);
  const auto part = [&](double us) {
    return std::clamp(std::log(std::max(us, least) / least) / range, 0.0, 1.0);
  };
  std::vector<Bar> all;
  for (const Row& row : rows)
    if (row.has_latency())
      all.push_back({name_of(row), part(row.microseconds(0.5)), part(row.microseconds(0.99)),
                     fmt::format("{} .. {}", short_number(row.microseconds(0.5)),
                                 short_number(row.microseconds(0.99)))});
  return "latency in us, median .. p99 (logarithmic)\n" + draw(all, terminal, is_utf8);
}

std::string bandwidth_bars(std::span<const Row> rows, const Terminal& terminal, bool is_utf8) {
  double most = 0;
  for (const Row& row : rows) most = std::max(most, row.mib_per_s());
  if (most <= 0) return {};
  std::vector<Bar> all;
  for (const Row& row : rows)
    if (row.has_volume())
      all.push_back({name_of(row), row.mib_per_s() / most, 0, short_number(row.mib_per_s())});
  return "bandwidth in MiB/s\n" + draw(all, terminal, is_utf8);
}

}  // namespace

double Row::microseconds(double fraction) const noexcept {
  return outcome.latency.percentile(fraction) / scale(*this);
}
double Row::least_us() const noexcept {
  return static_cast<double>(outcome.latency.least()) / scale(*this);
}
double Row::greatest_us() const noexcept {
  return static_cast<double>(outcome.latency.greatest()) / scale(*this);
}
double Row::mib_per_s() const noexcept {
  return million_per_s() * 1e6 * static_cast<double>(what.bytes) / double{kMiB};
}
double Row::million_per_s() const noexcept {
  const double picoseconds = outcome.volume.pace.percentile(0.5);
  return picoseconds > 0 ? 1e6 / picoseconds : mean_million_per_s();
}
double Row::mean_million_per_s() const noexcept {
  if (outcome.volume.seconds <= 0) return 0;
  return static_cast<double>(outcome.volume.messages) / outcome.volume.seconds / 1e6;
}

std::string short_number(double value) {
  if (value < 1) return fmt::format("{:#.3g}", value);
  if (value < 10) return fmt::format("{:.2f}", value);
  if (value < 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

std::string short_size(std::uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes >= 1024 && bytes % 1024 == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::format("{}", bytes);
}

std::string table_head(const Terminal& terminal, bool has_rival) {
  std::string line =
      fmt::format("{:<6} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {}", "verb", "bytes",
                  "min us", "median", "p90", "p99", "p99.9", "max", "MiB/s", "M/s", "data");
  if (has_rival) line += fmt::format("  | perftest {:>8} {:>8} {:>8}", "median", "p99", "MiB/s");
  return terminal.paint(Style::bold, line) + '\n';
}

std::string table_line(const Terminal& terminal, const Row& row, bool has_rival) {
  const bool has = row.has_latency();
  std::string line = fmt::format("{:<6} {:>5} {:>7}", to_string(row.what.verb),
                                 short_size(row.what.bytes), cell(has, row.least_us()));
  line += terminal.paint(Style::bold, fmt::format(" {:>7}", cell(has, row.microseconds(0.5))));
  for (const double each : {0.9, 0.99, 0.999})
    line += fmt::format(" {:>7}", cell(has, row.microseconds(each)));
  line += fmt::format(" {:>7} {:>7} {:>6} ", cell(has, row.greatest_us()),
                      cell(row.has_volume(), row.mib_per_s()),
                      cell(row.has_volume(), row.million_per_s()));
  line += row.verified ? terminal.paint(Style::good, "ok")
                       : terminal.paint(Style::warning, "unchecked");
  if (has_rival) {
    const Rival rival = row.rival.value_or(Rival{});
    line += fmt::format("    |          {:>8} {:>8} {:>8}", optional_cell(rival.p50_us),
                        optional_cell(rival.p99_us), optional_cell(rival.mib_per_s));
  }
  return line + '\n';
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json result = to_json(row.what);
  result.erase("sleeps");
  result["inline"] = row.outcome.inlined;
  result["verified"] = row.verified;
  if (row.has_latency())
    result["latency_us"] = {{"min", row.least_us()},
                            {"p50", row.microseconds(0.5)},
                            {"p90", row.microseconds(0.9)},
                            {"p99", row.microseconds(0.99)},
                            {"p99.9", row.microseconds(0.999)},
                            {"max", row.greatest_us()},
                            {"exchanges", row.outcome.latency.count()}};
  if (row.has_volume())
    result["bandwidth"] = {{"mib_per_s", row.mib_per_s()},
                           {"million_per_s", row.million_per_s()},
                           {"mean_million_per_s", row.mean_million_per_s()},
                           {"messages", row.outcome.volume.messages},
                           {"seconds", row.outcome.volume.seconds}};
  if (row.rival) {
    auto& rival = result["perftest"] = nlohmann::json::object();
    if (row.rival->p50_us) rival["p50_us"] = *row.rival->p50_us;
    if (row.rival->p99_us) rival["p99_us"] = *row.rival->p99_us;
    if (row.rival->mib_per_s) rival["mib_per_s"] = *row.rival->mib_per_s;
  }
  return result;
}

std::string bars(std::span<const Row> rows, const Terminal& terminal, bool is_utf8) {
  return latency_bars(rows, terminal, is_utf8) + bandwidth_bars(rows, terminal, is_utf8);
}

std::string interruption_note(std::span<const Row> rows) {
  constexpr double kNotable = 0.7;
  const Row* worst = nullptr;
  double least = kNotable;
  for (const Row& row : rows) {
    if (!row.has_volume()) continue;
    const double part = row.mean_million_per_s() / row.million_per_s();
    if (part >= least) continue;
    least = part;
    worst = &row;
  }
  if (worst == nullptr) return {};
  return fmt::format(
      "The stream was interrupted: over the whole time, {} made {} M/s, not {}. Other programs on "
      "the processors do this.\n",
      name_of(*worst), short_number(worst->mean_million_per_s()),
      short_number(worst->million_per_s()));
}

bool speaks_utf8() noexcept {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale{value};
    return locale.find("UTF-8") != std::string_view::npos ||
           locale.find("utf8") != std::string_view::npos;
  }
  return false;
}

}  // namespace verbatim::cli
