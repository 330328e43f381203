// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the tests of barriers go through.
#include "verbatim/network/barrier_schedule.hpp"

namespace verbatim::test {

inline constexpr auto kAlgorithms = {BarrierAlgorithm::centralized, BarrierAlgorithm::binary_tree,
                                     BarrierAlgorithm::dissemination};

}  // namespace verbatim::test
