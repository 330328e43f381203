// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file On which processors the ends run.
#include <vector>

namespace verbatim::cli {

/// Those that this process may use, in order.
[[nodiscard]] std::vector<int> allowed_processors();
/// This thread runs there only; false if the system does not allow it.
bool pin_to(int processor) noexcept;

}  // namespace verbatim::cli
