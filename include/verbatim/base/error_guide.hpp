// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What every code and every completion status means, what causes it and what to do.
///
/// Names, hints and explain() come from this table, and a program can print it. explain() says more
/// about a particular error, because it looks at the error's other fields and at the machine.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "verbatim/base/error.hpp"
#include "verbatim/base/work_status.hpp"

namespace verbatim {

struct ErrorGuide {
  std::string_view identifier;                   ///< As in source code: "timed_out".
  std::string_view name;                         ///< As in messages: "timed out".
  std::string_view meaning;                      ///< One sentence.
  std::array<std::string_view, 4> all_causes{};  ///< Likeliest first; unused entries are empty.
  std::string_view remedy{};                     ///< What to do; "" if nothing helps.

  [[nodiscard]] constexpr std::span<const std::string_view> causes() const noexcept {
    const auto count = std::ranges::find(all_causes, std::string_view{}) - all_causes.begin();
    return std::span{all_causes}.first(static_cast<std::size_t>(count));
  }
};

/// All codes, indexed by their value.
[[nodiscard]] std::span<const ErrorGuide> guide_to_codes() noexcept;
/// All statuses that the verbs define, indexed by their value.
[[nodiscard]] std::span<const ErrorGuide> guide_to_statuses() noexcept;

/// An unknown number (of a newer driver, say) has a guide too, with only a name.
[[nodiscard]] const ErrorGuide& guide_to(Errc code) noexcept;
[[nodiscard]] const ErrorGuide& guide_to(WorkStatus status) noexcept;

/// What to do about work that ended so: first what the status asks for, then what all failed work
/// does. "" for success.
[[nodiscard]] std::string remedy_of(WorkStatus status);

}  // namespace verbatim
