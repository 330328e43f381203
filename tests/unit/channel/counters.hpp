// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How often this program allocated and read the monotonic clock.
///
/// counters.cpp replaces operator new and clock_gettime for the whole program.

namespace verbatim::test {

[[nodiscard]] long allocations() noexcept;
[[nodiscard]] long clock_reads() noexcept;

}  // namespace verbatim::test
