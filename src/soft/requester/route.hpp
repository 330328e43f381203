// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Finding the peer of a connected queue pair.
///
/// Owns nothing: the queue pair holds a reference to its peer. On the way to RTR, before requests
/// can run; afterwards in the thread that runs a request, under `queue_pair`. Takes `peers` and
/// `helper`. Not hot.
#include "soft/requester/queue_pair.hpp"

namespace verbatim::engine {

/// Finds the process of the queue pair that this one is connected to. False: there is no such queue
/// pair, or we cannot attach its process, for example for want of descriptors. A request then
/// waits, and looks again.
bool aim(QueuePair& queue_pair) noexcept;

}  // namespace verbatim::engine
