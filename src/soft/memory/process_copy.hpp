// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Copying to and from the memory of another process by a system call.
///
/// Owns nothing. Called by the thread that runs a request, and by the one that settles; takes no
/// lock. Not hot: the system call dominates the cost. Pids are reused. So small data goes through a
/// file that stays the memory of its process (/proc/<pid>/mem): one call, 1.25 us. The kernel
/// copies that twice, so larger data, and all data if there is no such file, goes through
/// process_vm_writev, 1.6 us. The pid is used only while its process is known to live, which is
/// checked just before, 0.5 us.
#include <cstddef>

#include "soft/memory/location.hpp"

namespace verbatim::engine {

/// Copies. The last 8 bytes are a separate vector: the kernel copies them last.
[[nodiscard]] Copied write_process(const Location& to, const std::byte* from,
                                   std::size_t size) noexcept;
[[nodiscard]] Copied read_process(const Location& from, std::byte* to, std::size_t size) noexcept;

/// Copies into our own memory, and does nothing if none is mapped: a program may have unmapped
/// memory that it has not deregistered yet, which harms no device.
void write_if_mapped(std::byte* to, const std::byte* from, std::size_t size) noexcept;

}  // namespace verbatim::engine
