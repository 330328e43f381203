// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion channels: FIFOs that peers write to.
///
/// Owns the FIFO's file and descriptors. A process that may no longer write to the directory has a
/// pipe instead, which peers open through the table of memory objects. A message names a completion
/// queue and its generation.
///
/// Any thread; a sleeping one waits here, and holds no lock. Takes `channel` to drop messages, and
/// `objects` to publish a pipe. Not hot. get_completion_event is not noexcept, because a thread may
/// be cancelled there.
#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "soft/shared/lock_rank.hpp"

namespace verbatim::engine {

struct CompletionChannel {
  ibv_comp_channel raw;
  std::uint32_t number;  // Of its FIFO, which never comes again, or of its pipe.
  int drain_fd = -1;     // The same FIFO, for reading and writing without waiting.
  std::atomic<std::uint32_t> users{0};
  Ranked<LockRank::channel, std::mutex> drain_mutex;
};

/// Removes the messages of a queue that is about to be destroyed from the FIFO: a readable
/// descriptor means that a get will not block. Nobody writes new ones, because its queue pairs are
/// gone. Call it without any lock.
void drop_messages(ibv_comp_channel& channel, std::uint32_t queue) noexcept;

ibv_comp_channel* create_channel(ibv_context* context) noexcept;
int destroy_channel(ibv_comp_channel* channel) noexcept;
int get_completion_event(ibv_comp_channel* channel, ibv_cq** queue, void** user);
void acknowledge_completion_events(ibv_cq* queue, unsigned count) noexcept;

}  // namespace verbatim::engine
