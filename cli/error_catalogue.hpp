// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Every error that the library can report, as data: what `verbatim explain` prints.
///
/// It adds no knowledge of its own: codes and statuses are those of error_guide.hpp, and errnos get
/// the code and the advice that explain() gives them. Nothing here looks at the machine.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::cli {

enum class ErrorKind : std::uint8_t {
  code,         ///< An Errc.
  work_status,  ///< How a work request ended: ibv_wc_status.
  os_error,     ///< An errno.
};
/// "code", "status", "errno".
[[nodiscard]] std::string_view to_string(ErrorKind kind) noexcept;

struct ErrorEntry {
  ErrorKind kind{};
  int value = 0;
  std::string code;   ///< As programs write it: "peer_lost", "retry_exceeded", "ENOMEM".
  std::string alias;  ///< Its other name: "Errc::peer_lost", "IBV_WC_RETRY_EXC_ERR", or "".
  std::string name;   ///< As messages write it: "peer lost".
  std::string meaning;
  std::vector<std::string> causes;  ///< Likeliest first.
  std::string remedy;
};

/// All codes, then all statuses, then the errnos of which the library knows more than the system.
[[nodiscard]] std::vector<ErrorEntry> error_catalogue();

/// What a word stands for: a name in any spelling, or a number, which may be a status and an errno.
/// Empty if nothing.
[[nodiscard]] std::vector<ErrorEntry> find_errors(std::string_view word);
/// Names that look like it, nearest first; at most three.
[[nodiscard]] std::vector<std::string> near_names(std::string_view word);

/// As explain() writes it.
[[nodiscard]] std::string to_text(const ErrorEntry& entry);
[[nodiscard]] nlohmann::ordered_json to_json(const ErrorEntry& entry);

}  // namespace verbatim::cli
