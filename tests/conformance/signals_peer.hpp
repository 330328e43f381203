// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The process in which the signals' tests happen.
#include <cstdint>
#include <string>

namespace verbatim::test {

/// The child's part: "masks", "wait" or "descriptor"; connects to the parent first.
[[nodiscard]] int play_signals(std::uint16_t port, const std::string& part);

}  // namespace verbatim::test
