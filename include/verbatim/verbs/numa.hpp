// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Running a thread, and allocating its memory, close to a device.
///
/// Through libnuma, loaded at run time: `unsupported` where it or the kernel's support is absent.
/// Affects the calling thread (and threads it starts later).
#include <cstdint>

#include "verbatim/base/error.hpp"

namespace verbatim {

class Context;

enum class NumaPolicy : std::uint8_t {
  preferred,  ///< Memory of the node first, others when it is full.
  strict,     ///< Memory of the node only; an allocation fails when it is full.
};

[[nodiscard]] Result<void> bind_thread_to_node(int node, NumaPolicy policy = NumaPolicy::preferred);
/// To the node that the device is attached to; `not_found` where the system names none.
[[nodiscard]] Result<void> bind_thread_to_device(const Context& context,
                                                 NumaPolicy policy = NumaPolicy::preferred);
/// All processors, default memory policy.
[[nodiscard]] Result<void> unbind_thread();

}  // namespace verbatim
