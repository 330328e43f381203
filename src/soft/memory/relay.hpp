// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Work on memory that only its owner reaches: the owner's helper copies, or does the atomic.
///
/// Slow (a thread wakes for each piece), but it works in every container.
///
/// A requester locks a box of the owner, writes its request and asks. The owner claims the request,
/// does it and answers. Each request has a number, which its answer repeats. A requester that gives
/// up takes the request back; this fails only if the owner has claimed it. Then the requester waits
/// for the answer, because a claimed request may be done. If a requester was killed, the next one
/// brings the box to rest in the same way. A stopped requester keeps its box, and others use
/// another one. If the owner does not answer in time, it is `not_now`: it may be stopped, and the
/// ack timers say how long to tolerate that.
///
/// Threads: a requester is any thread that runs a request, under its queue pair's lock. The helper
/// answers, or a thread that waits for an answer itself (two processes may ask each other). Locks:
/// the box's lock (tagged; held for one piece of a request), taken with a bound. The answering
/// side holds `serving` from the check of the key to the end of the work, and inside it the owner's
/// `atomics` with a bound. A thread that revokes a key takes `serving` once. Not hot.
///
/// Owns nothing: the boxes are in the owner's segment.
#include <cstddef>
#include <cstdint>

#include "soft/memory/location.hpp"

namespace verbatim::engine {

class Engine;
struct AtomicWork;

[[nodiscard]] Copied relay_write(Engine& engine, const Location& to, const std::byte* from,
                                 std::size_t size) noexcept;
[[nodiscard]] Copied relay_read(Engine& engine, const Location& from, std::byte* to,
                                std::size_t size) noexcept;
/// `no` also if the owner was stopped while it did it: it may have been done, and must not be
/// repeated.
[[nodiscard]] Copied relay_atomic(Engine& engine, const Location& at, const AtomicWork& work,
                                  std::uint64_t& old) noexcept;

/// The owner's side: serves a waiting request, if there is one.
void answer_relay(Engine& engine) noexcept;

/// After a key was revoked: waits until no request is served that saw it.
void wait_for_relay(Engine& engine) noexcept;

}  // namespace verbatim::engine
