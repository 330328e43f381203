// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registered memory: the control verbs that create, change and end a region.
///
/// Owns the entries of the table of regions: the trusted copy for our own requests, and the one
/// that peers read. Threads: any; the program uses a region from one thread at a time. Locks:
/// `segment`, `objects`, `serving`, then `domain` while it waits for requesters (two seconds at
/// most), then `lifetime` (shared) and `completer` while payloads are placed; one after the other.
/// It waits for our own requests without a lock. Not hot.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

class Engine;

/// Control verbs.
ibv_mr* register_memory(ibv_pd* domain, void* address, std::size_t length, std::uint64_t base,
                        unsigned access) noexcept;
/// Like ibv_rereg_mr: changes what `flags` names; a region that moves gets new keys. If not 0,
/// errno says why. Everything that can be refused is refused before anything changes, so the region
/// is as it was (IBV_REREG_MR_ERR_INPUT).
int reregister_memory(ibv_mr* region, int flags, ibv_pd* domain, void* address, std::size_t length,
                      int access) noexcept;
int deregister_memory(ibv_mr* region) noexcept;

}  // namespace verbatim::engine
