// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What these tests need to know about the engine's files, and nothing else.
#include <cstddef>
#include <cstdint>

#include "soft/shared/layout.hpp"

namespace verbatim::test {

/// The part of a segment file that says who may use which memory.
inline constexpr std::uint64_t kRegionTableBegin = offsetof(engine::Segment, regions);
inline constexpr std::uint64_t kRegionTableEnd =
    kRegionTableBegin + sizeof(engine::Segment::regions);
/// A key that leads far into that table, where there never was a region.
inline constexpr std::uint32_t kFarKey = engine::region_key(50'000, 1);

}  // namespace verbatim::test
