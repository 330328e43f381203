// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Segments that lose their memory under our hands: an error, and not a SIGBUS.
///
/// Somebody may cut a segment's file short, or the file system may have no page left for it. The
/// kernel then answers the next access with SIGBUS. What was reached is a peer's memory, and a peer
/// costs only itself: the segment is replaced by empty memory, in which no queue pair is ready, and
/// the question whether the peer lives finds the file short.
///
/// The handler is the process's: it looks only at addresses of segments, and hands every other
/// fault on to the handler that was there before. A program that sets its own later is not
/// disturbed; it loses this protection, and so does a thread that blocks SIGBUS.
///
/// Owns the handler and the list of mapped segments. Any thread; no locks, because the handler
/// reads the list. Not hot.
#include <cstddef>

namespace verbatim::engine {

/// Installs the handler, once.
void guard_faults() noexcept;
/// A mapped segment, until forget_segment().
void guard_segment(void* address) noexcept;
void forget_segment(void* address) noexcept;

}  // namespace verbatim::engine
