// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The provider over libibverbs: hardware and the kernel's software devices.
///
/// libibverbs.so.1 is loaded at run time, so a program starts where rdma-core is not installed
/// and lists zero devices there. `VERBATIM_LIBIBVERBS` names another library file.
#include "verbatim/provider/provider.hpp"

namespace verbatim {

/// Loaded on first use; any thread.
[[nodiscard]] const Provider& system_provider();

}  // namespace verbatim
