// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The provider over libibverbs: hardware and the kernel's software devices.
///
/// It loads libibverbs.so.1 at run time. A program therefore starts on a machine without rdma-core,
/// and lists zero devices there. `VERBATIM_LIBIBVERBS` names another library file.
#include "verbatim/provider/provider.hpp"

namespace verbatim {

/// Loaded on first use; any thread.
[[nodiscard]] const Provider& system_provider();

}  // namespace verbatim
