// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Copying to and from the memory of another process by a system call.
///
/// Owns nothing. Called by the thread that runs a request, and by the one that settles; takes no
/// lock. Not hot: the system call is what it costs. Pids are used again. So little data goes
/// through a file that stays the memory of its process (/proc/<pid>/mem): one call, 1.25 us. The
/// kernel copies that twice; so more data, and all where there is no such file, goes by
/// process_vm_writev, 1.6 us, and the pid is used only while its process is known to live, asked
/// just before, 0.5 us.
#include <cstddef>

#include "soft/memory/location.hpp"

namespace verbatim::engine {

/// Copies. The last 8 bytes are a vector of their own: the kernel copies them last.
[[nodiscard]] Copied write_process(const Location& to, const std::byte* from,
                                   std::size_t size) noexcept;
[[nodiscard]] Copied read_process(const Location& from, std::byte* to, std::size_t size) noexcept;

/// Copies into our own memory, and does nothing where none is: a program may have unmapped what it
/// has not deregistered yet, which harms no device.
void write_if_mapped(std::byte* to, const std::byte* from, std::size_t size) noexcept;

}  // namespace verbatim::engine
