// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the environment may say to the software device, and whether it says that.
///
/// Owns nothing, takes no lock; read when a device is opened. Any thread. Not hot.
#include <cstdint>

#include "verbatim/base/error.hpp"

namespace verbatim::engine {

inline constexpr std::uint32_t kMaxDevices = 8;

/// The first variable whose value is none of those that it may have: the error names it, the value
/// and what it may be. An empty value is none.
[[nodiscard]] Result<void> check_settings() noexcept;

/// Whether `VERBATIM_SOFT` hides the devices; how many `VERBATIM_SOFT_DEVICES` wants (1, if it
/// makes no sense: opening it says so).
[[nodiscard]] bool are_devices_hidden() noexcept;
[[nodiscard]] std::uint32_t wanted_devices() noexcept;

/// Whether every process of this user may read and write our memory (`VERBATIM_SOFT_PTRACE=any`).
[[nodiscard]] bool may_be_traced() noexcept;
/// Whether the kernel keeps processes of one user out of each other's memory (Yama).
[[nodiscard]] bool is_tracing_denied() noexcept;

}  // namespace verbatim::engine
