// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a memory region and a queue pair allow.
///
/// The bits are the verbs' own (`ibv_access_flags`). The same set is used for regions, queue pairs
/// and the type of a `RemoteSpan`. Give the least that works: remote_write lets a peer write at any
/// time until the region is deregistered.
#include "verbatim/base/flags.hpp"

namespace verbatim {

enum class Access : unsigned {
  local_write = 1u << 0,
  remote_write = 1u << 1,
  remote_read = 1u << 2,
  remote_atomic = 1u << 3,
  memory_window_bind = 1u << 4,
  zero_based = 1u << 5,
  on_demand = 1u << 6,
  huge_pages = 1u << 7,
  relaxed_ordering = 1u << 20,  ///< A hint: ignored if the device has no such mode.
};
template <>
inline constexpr bool kIsFlag<Access> = true;

using AccessFlags = Flags<Access>;

/// The rights that can be given to a peer.
inline constexpr AccessFlags kRemoteAccess =
    Access::remote_write | Access::remote_read | Access::remote_atomic;

}  // namespace verbatim
