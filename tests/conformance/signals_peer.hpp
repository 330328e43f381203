// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The process in which the tests of signals run.
#include <cstdint>
#include <string>

namespace verbatim::test {

/// The child's part: "masks", "wait" or "descriptor". Connects to the parent first.
[[nodiscard]] int play_signals(std::uint16_t port, const std::string& part);

}  // namespace verbatim::test
