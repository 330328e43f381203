// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What `verbatim doctor` found out about one thing.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::cli {

enum class Severity : std::uint8_t {
  ok,
  note,     ///< Good to know; nothing has to be done.
  warning,  ///< Works, but slowly, or not for everything.
  error,    ///< Programs fail because of it.
};
[[nodiscard]] std::string_view to_string(Severity severity) noexcept;

struct Finding {
  std::string id;  ///< For scripts: "memlock", "port.mlx5_0.1".
  Severity severity = Severity::ok;
  std::string title;  ///< What was looked at.
  std::string value;  ///< How it is.
  std::string why{};  ///< What that does to programs.
  std::string fix{};  ///< The command that changes it, or "".
};
using Findings = std::vector<Finding>;

[[nodiscard]] nlohmann::ordered_json to_json(const Finding& finding);
[[nodiscard]] bool has_error(const Findings& findings) noexcept;

}  // namespace verbatim::cli
