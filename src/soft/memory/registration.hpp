// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registered memory: the control verbs that make, change and end a region.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

class Engine;

/// Whether the range lies in one of our own regions, by its address here.
[[nodiscard]] bool is_registered(Engine& engine, std::uint64_t address,
                                 std::uint64_t length) noexcept;

/// Control verbs.
ibv_mr* register_memory(ibv_pd* domain, void* address, std::size_t length, std::uint64_t base,
                        unsigned access) noexcept;
/// As ibv_rereg_mr: what `flags` names is changed; a region that moves gets new keys. Not 0: errno
/// says why; all that can be refused is refused before anything changes, so the region is as it was
/// (IBV_REREG_MR_ERR_INPUT).
int reregister_memory(ibv_mr* region, int flags, ibv_pd* domain, void* address, std::size_t length,
                      int access) noexcept;
int deregister_memory(ibv_mr* region) noexcept;

}  // namespace verbatim::engine
