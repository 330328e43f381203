// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `operator new` of this program, which fails when a test asks for it, in every thread.
namespace verbatim::test {

enum class Failing : unsigned char {
  once,      ///< One allocation fails.
  from_then  ///< That one and all that follow.
};

/// From now on allocation number `which` (from 1) fails. 0: none fails, but they are counted.
void fail_allocation(unsigned which, Failing how = Failing::once) noexcept;
/// Memory is available again. Returns how many allocations there were since.
unsigned stop_failing() noexcept;

}  // namespace verbatim::test
