// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Running a thread, and allocating its memory, close to a device.
///
/// Uses libnuma, loaded at run time: `unsupported` if it or the kernel's support is missing.
/// Affects the calling thread (and threads it starts later).
#include <cstdint>

#include "verbatim/base/error.hpp"

namespace verbatim {

class Context;

enum class NumaPolicy : std::uint8_t {
  preferred,  ///< Memory of the node first, other nodes when it is full.
  strict,     ///< Only memory of the node; an allocation fails when it is full.
};

[[nodiscard]] Result<void> bind_thread_to_node(int node, NumaPolicy policy = NumaPolicy::preferred);
/// Binds to the device's node; `not_found` if the system names none.
[[nodiscard]] Result<void> bind_thread_to_device(const Context& context,
                                                 NumaPolicy policy = NumaPolicy::preferred);
/// All processors, default memory policy.
[[nodiscard]] Result<void> unbind_thread();

}  // namespace verbatim
