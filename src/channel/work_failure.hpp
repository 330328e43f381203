// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A failed completion as an Error.
#include "verbatim/base/error.hpp"
#include "verbatim/verbs/completion.hpp"

namespace verbatim::detail {

[[nodiscard]] inline Error work_failure(const Completion& completion) noexcept {
  return {.code = Errc::work_failed,
          .operation = "work request",
          .field = to_string(completion.status()).data(),  // Of a literal: it ends in 0.
          .value = static_cast<std::uint64_t>(completion.status()),
          .limit = completion.vendor_code()};
}

}  // namespace verbatim::detail
