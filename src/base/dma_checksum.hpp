// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A fingerprint of a send buffer, taken at the post and compared at the completion.
#include <cstdint>

#include "verbatim/base/dma_model.hpp"

namespace verbatim::dma::detail {

/// Two contents that differ in at most one aligned word of the range never have the same checksum;
/// others collide with a probability of 2^-64. Not secure against an adversary.
[[nodiscard]] std::uint64_t checksum(const Range& range) noexcept;

}  // namespace verbatim::dma::detail
