// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The job's secret, if the environment has one.
#include <optional>

#include "verbatim/base/error.hpp"
#include "verbatim/network/secret.hpp"

namespace verbatim::detail {

/// VERBATIM_SECRET or VERBATIM_SECRET_FILE; nothing if neither is set. The error for a bad one
/// names the variable, and never its value.
[[nodiscard]] Result<std::optional<Secret>> secret_of_environment(const char* operation);

}  // namespace verbatim::detail
