// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Copying to and from the memory of another process by a system call.
#include <cstddef>

#include "soft/memory/location.hpp"

namespace verbatim::engine {

/// Copies by process_vm_writev. The last 8 bytes are a vector of their own: the kernel copies them
/// last.
[[nodiscard]] bool write_process(const Location& to, const std::byte* from,
                                 std::size_t size) noexcept;
[[nodiscard]] bool read_process(const Location& from, std::byte* to, std::size_t size) noexcept;

}  // namespace verbatim::engine
