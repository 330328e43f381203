// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What was measured, as a table, as JSON, and as bars in the terminal.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "measure/session.hpp"
#include "terminal.hpp"

namespace verbatim::cli {

/// What another program measured of the same case, where it measured it.
struct Rival {
  std::optional<double> p50_us{};
  std::optional<double> p99_us{};
  std::optional<double> mib_per_s{};
};

struct Row {
  Case what{};
  Figures figures{};
  Outcome outcome{};
  bool verified = false;  ///< Else it ended early.
  std::optional<Rival> rival{};

  [[nodiscard]] bool has_latency() const noexcept { return outcome.latency.count() > 0; }
  [[nodiscard]] bool has_volume() const noexcept { return outcome.volume.messages > 0; }
  /// Of one message: see is_round_trip().
  [[nodiscard]] double microseconds(double fraction) const noexcept;
  [[nodiscard]] double least_us() const noexcept;
  [[nodiscard]] double greatest_us() const noexcept;
  /// Half of the messages went at this rate or faster: see Volume::pace.
  [[nodiscard]] double mib_per_s() const noexcept;
  [[nodiscard]] double million_per_s() const noexcept;
  /// All messages over the whole time.
  [[nodiscard]] double mean_million_per_s() const noexcept;
};

/// Three digits that count, or all before the point: "0.0860", "12.3", "4567".
[[nodiscard]] std::string short_number(double value);
/// "8", "4K", "1M".
[[nodiscard]] std::string short_size(std::uint64_t bytes);

[[nodiscard]] std::string table_head(const Terminal& terminal, bool has_rival);
[[nodiscard]] std::string table_line(const Terminal& terminal, const Row& row, bool has_rival);
[[nodiscard]] nlohmann::json to_json(const Row& row);

/// A bar for each row: latency on a logarithmic scale, bandwidth on a linear one. Empty without
/// figures.
[[nodiscard]] std::string bars(std::span<const Row> rows, const Terminal& terminal, bool is_utf8);
/// A line about the row whose mean rate is farthest below the one in the table; empty if they
/// agree.
[[nodiscard]] std::string interruption_note(std::span<const Row> rows);
/// Whether the user's locale has more than ASCII.
[[nodiscard]] bool speaks_utf8() noexcept;

}  // namespace verbatim::cli
