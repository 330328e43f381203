// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What every code and every completion status means, what causes it and what to do.
///
/// One table: names, hints and explain() come from it, and a program can print it. explain() knows
/// more about a given error, because it looks at its other fields and at the machine.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "verbatim/base/error.hpp"
#include "verbatim/base/work_status.hpp"

namespace verbatim {

struct ErrorGuide {
  std::string_view identifier;                   ///< As in programs: "timed_out".
  std::string_view name;                         ///< As in messages: "timed out".
  std::string_view meaning;                      ///< One sentence.
  std::array<std::string_view, 4> all_causes{};  ///< Likeliest first; the rest is empty.
  std::string_view remedy{};                     ///< What to do; "" where there is nothing to do.

  [[nodiscard]] constexpr std::span<const std::string_view> causes() const noexcept {
    const auto count = std::ranges::find(all_causes, std::string_view{}) - all_causes.begin();
    return std::span{all_causes}.first(static_cast<std::size_t>(count));
  }
};

/// All codes: the guide to a code is at its value.
[[nodiscard]] std::span<const ErrorGuide> guide_to_codes() noexcept;
/// All statuses that the verbs know: the guide to a status is at its value.
[[nodiscard]] std::span<const ErrorGuide> guide_to_statuses() noexcept;

/// A number that is none of them (a newer driver's, say) has a guide too, with a name only.
[[nodiscard]] const ErrorGuide& guide_to(Errc code) noexcept;
[[nodiscard]] const ErrorGuide& guide_to(WorkStatus status) noexcept;

}  // namespace verbatim
