// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The environment of the software device, and whether its values are valid.
///
/// Owns nothing, takes no lock; read when a device is opened. Any thread. Not hot.
#include <cstdint>

#include "verbatim/base/error.hpp"

namespace verbatim::engine {

inline constexpr std::uint32_t kMaxDevices = 8;

/// Finds the first variable with an invalid value: the error names it, the value and the valid
/// values. An empty value counts as unset.
[[nodiscard]] Result<void> check_settings() noexcept;

/// Whether `VERBATIM_SOFT` hides the devices; how many `VERBATIM_SOFT_DEVICES` asks for (1 if it
/// makes no sense: opening reports that).
[[nodiscard]] bool are_devices_hidden() noexcept;
[[nodiscard]] std::uint32_t wanted_devices() noexcept;

/// Whether every process of this user may read and write our memory (`VERBATIM_SOFT_PTRACE=any`).
[[nodiscard]] bool may_be_traced() noexcept;
/// Whether the kernel denies processes of one user access to each other's memory (Yama).
[[nodiscard]] bool is_tracing_denied() noexcept;

}  // namespace verbatim::engine
