// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How often this process has allocated memory, by any function; operator new is included.

namespace verbatim::overhead {

/// Counts all threads, since the start of the process.
[[nodiscard]] long allocations() noexcept;

}  // namespace verbatim::overhead
