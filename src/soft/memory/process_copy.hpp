// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Copying to and from the memory of another process by a system call.
///
/// Owns nothing. Called by the thread that runs a request, and by the one that settles; takes no
/// lock. Not hot: the system call is what it costs. The pid is used only while its process is known
/// to live, just before: pids are used again.
#include <cstddef>

#include "soft/memory/location.hpp"

namespace verbatim::engine {

/// Copies by process_vm_writev. The last 8 bytes are a vector of their own: the kernel copies them
/// last.
[[nodiscard]] Copied write_process(const Location& to, const std::byte* from,
                                   std::size_t size) noexcept;
[[nodiscard]] Copied read_process(const Location& from, std::byte* to, std::size_t size) noexcept;

/// Copies into our own memory, and does nothing where none is: a program may have unmapped what it
/// has not deregistered yet, which harms no device.
void write_if_mapped(std::byte* to, const std::byte* from, std::size_t size) noexcept;

}  // namespace verbatim::engine
