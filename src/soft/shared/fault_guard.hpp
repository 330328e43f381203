// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Segments that lose their memory while mapped: an error, and not a SIGBUS.
///
/// Another process may truncate a segment's file, or the file system may have no page left for it.
/// The kernel then answers the next access with SIGBUS. The access was to a peer's memory, and a
/// peer affects only itself. So the segment is replaced with empty memory, in which no queue pair
/// is ready, and the check whether the peer lives finds the file too short.
///
/// There is one handler for the process. It looks only at addresses of segments, and passes every
/// other fault to the previous handler. A program that sets its own handler later is not disturbed,
/// but loses this protection; so does a thread that blocks SIGBUS.
///
/// Owns the handler and the list of mapped segments. Any thread; no locks, because the handler
/// reads the list. Not hot.
#include <cstddef>

namespace verbatim::engine {

/// Installs the handler, once.
void guard_faults() noexcept;
/// Adds a mapped segment, until forget_segment().
void guard_segment(void* address) noexcept;
void forget_segment(void* address) noexcept;

}  // namespace verbatim::engine
