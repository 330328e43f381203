// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The shared ring of a completion queue: what requesters wrote into it.
#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "soft/shared/layout.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

class Engine;

/// What a queue is armed for.
enum Armed : std::uint32_t { no, solicited_only, any };

/// Wakes whoever sleeps on the queue's channel, if it is armed for this completion. `Dekker`: the
/// owner arms, then looks at the ring; we publish, then look whether it is armed.
void notify(Engine& engine, Peer& owner, SharedCompletionQueue& queue, std::uint32_t index,
            bool solicited) noexcept;

/// Turns the next entry that a peer wrote into a completion. Nothing in it is trusted: an entry
/// that makes no sense is skipped. False: there is none.
bool take_shared(Engine& engine, CompletionQueue& queue, OwnCompletion& out) noexcept;
/// The program has seen it: the receive's place in its queue is free again.
void retire_receive(QueuePair& queue_pair) noexcept;

/// What a requester writes into its peer's queue.
struct RemoteCompletion {
  std::uint32_t queue_pair;  ///< The responder's index.
  std::uint32_t slot;        ///< The receive that it completes.
  std::uint32_t byte_count;
  std::uint32_t immediate;
  std::uint32_t source;
  std::uint8_t opcode;
  std::uint8_t flags;
  std::uint8_t status;
  Payload payload;
  bool solicited;
  std::span<const std::byte> data;  ///< For Payload::in_entry.
};
/// False: the queue is full or its lock cannot be had.
[[nodiscard]] bool push_remote(Engine& engine, Peer& peer, std::uint32_t queue,
                               const RemoteCompletion& completion) noexcept;

/// Moves what peers wrote into the private ring, in order: before flushes are added behind it.
void absorb(Engine& engine, CompletionQueue& queue) noexcept;
/// Removes the completions of a queue pair that is going away.
void purge(Engine& engine, CompletionQueue& queue, const QueuePair& gone) noexcept;

}  // namespace verbatim::engine
