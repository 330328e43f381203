// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file From an Error to what to do about it.
///
/// explain() reads the error and the current state of the system (limits, device nodes, huge
/// pages), so call it soon after the failure. It returns the error in one line, then the causes,
/// likeliest first.
#include <string>

#include "verbatim/base/error.hpp"

namespace verbatim {

[[nodiscard]] std::string explain(const Error& error);

}  // namespace verbatim
