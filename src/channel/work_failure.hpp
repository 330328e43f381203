// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A failed completion as an Error, and what it says about the peer.
#include "verbatim/base/error.hpp"
#include "verbatim/verbs/completion.hpp"

namespace verbatim::detail {

/// The view is of a literal, so it is zero-terminated.
[[nodiscard]] inline const char* name_of(WorkStatus status) noexcept {
  return to_string(status).data();  // NOLINT(bugprone-suspicious-stringview-data-usage): see above
}

[[nodiscard]] inline Error work_failure(const Completion& completion) noexcept {
  return {.code = Errc::work_failed,
          .operation = "work request",
          .field = name_of(completion.status()),
          .value = static_cast<std::uint64_t>(completion.status()),
          .limit = completion.vendor_code()};
}

/// Whether that is the peer's end, as reported by whoever knows it.
[[nodiscard]] constexpr bool is_peer_end(const Error& error) noexcept {
  return error == Errc::peer_lost || error == Errc::peer_closed;
}

/// Whether the peer did not answer, as happens when it has gone away.
[[nodiscard]] constexpr bool is_unanswered(WorkStatus status) noexcept {
  return status == WorkStatus::retry_exceeded || status == WorkStatus::response_timeout ||
         status == WorkStatus::remote_aborted;
}

}  // namespace verbatim::detail
