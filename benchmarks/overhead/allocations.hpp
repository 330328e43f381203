// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How often this process has asked for memory, by whatever name: new ends there as well.

namespace verbatim::overhead {

/// Since the start of the process; of all threads.
[[nodiscard]] long allocations() noexcept;

}  // namespace verbatim::overhead
