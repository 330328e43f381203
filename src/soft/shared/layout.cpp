// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/layout.hpp"

#include <initializer_list>

namespace verbatim::engine {

// Builds of any two versions read these fields of each other, so the fields must never move.
static_assert(offsetof(Segment, magic) == 0 && offsetof(Segment, version) == 8 &&
              offsetof(Segment, slot) == 12);

std::uint32_t layout_version(std::uint32_t text) noexcept {
  std::uint32_t version = text;
  // The source text decides. But another compiler may lay out the same text differently.
  for (const std::size_t number :
       {sizeof(CompletionEntry), sizeof(SharedCompletionQueue), sizeof(ReceiveSlot),
        sizeof(SharedReceives), sizeof(SharedQueuePair), sizeof(SharedRegion), sizeof(MemoryObject),
        sizeof(RelayBox), offsetof(Segment, doorbell), offsetof(Segment, relay),
        offsetof(Segment, objects), offsetof(Segment, completion_queues),
        offsetof(Segment, shared_receives), offsetof(Segment, queue_pairs),
        offsetof(Segment, regions), offsetof(Segment, region_marks), sizeof(Segment)})
    version = (version ^ static_cast<std::uint32_t>(number)) * 16777619u;  // FNV-1a
  return version;
}

// VERBATIM_LAYOUT_TEXT comes from the build: see cmake/layout_version.cmake.
std::uint32_t layout_version() noexcept { return layout_version(VERBATIM_LAYOUT_TEXT); }

}  // namespace verbatim::engine
