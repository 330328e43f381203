// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A completion queue as its owner keeps it, and what polling must know about receives.
///
/// Two rings: a private one for what this process finished itself, and one in shared memory for
/// what requesters finished here. Owns the private ring, and the owner's copy of each receive. Any
/// thread may poll. `lock` (rank `completer`) guards the consumer's side of both; `poll_lock` the
/// completion that an extended poll reads. Hot.
#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/spin.hpp"

namespace verbatim::engine {

class Engine;
struct CompletionQueue;

/// A receive as the owner keeps it: the shared copy is for peers.
struct OwnReceive {
  std::uint64_t id;
  std::uint32_t number;  // Running; the completion names it.
  std::uint32_t count;
  std::uint32_t length;
  std::atomic<bool> in_use;  // Until its completion, with payload, is out of the shared ring.
  ibv_sge elements[kMaxElements];
};

/// The owner's half of a ring of receives.
struct ReceiveRing {
  SharedReceives* shared = nullptr;
  std::byte* slots = nullptr;  // In our own segment.
  std::uint32_t stride = 0;
  std::uint32_t capacity = 0;  // A power of two.
  std::uint32_t depth = 0;
  std::uint32_t max_elements = 0;
  std::uint32_t posted = 0;                // Running number.
  std::uint32_t skipped = 0;               // How many numbers were skipped,
  std::uint32_t last_skipped = 0;          // and the one after the last of them.
  std::atomic<std::uint32_t> returned{0};  // How many of them were returned to the program.
  bool is_shared = false;                  // Several completion queues return its receives.
  std::unique_ptr<OwnReceive[]> own;
  std::uint64_t offset = 0;  // What was allocated for it.
  std::uint64_t bytes = 0;

  [[nodiscard]] ReceiveSlot& slot(std::uint32_t number) const noexcept {
    return *reinterpret_cast<ReceiveSlot*>(slots + std::size_t{number & (capacity - 1)} * stride);
  }
  [[nodiscard]] OwnReceive& own_at(std::uint32_t number) const noexcept {
    return own[number & (capacity - 1)];
  }
};

/// The receive side of a queue pair. Completions find it by the queue pair's index.
struct ReceiveSide {
  void* queue_pair;      ///< Its owner, for code that knows the type.
  std::uint32_t number;  ///< The queue pair's.
  std::atomic<std::uint32_t>*
      retired;             ///< From its send queue: identifies it in completions of sends.
  CompletionQueue* queue;  ///< Where its receives complete.
  ReceiveRing* ring;       ///< Its own, or the shared queue's.
};

/// A completion that this process produced: of a send, or of a flushed receive. A free place in the
/// ring is 0 wherever the success of a send is 0: these are many, and need not write that again.
struct OwnCompletion {
  ibv_wc wc{};  // As the program gets it: polling copies it.
  union {
    std::atomic<std::uint32_t>* retired = nullptr;  // A send: polling frees places up to `number`.
    ReceiveRing* ring;                              // A receive: polling frees one place.
  };
  std::uint32_t number = 0;  // Of the request in its queue.
  bool is_receive = false;
  bool is_rare = false;              // Not the success of a send: its place must be cleaned.
  const void* queue_pair = nullptr;  // For a receive; for a send `retired` identifies it.

  [[nodiscard]] bool is_of(const ReceiveSide& side) const noexcept {
    return is_receive ? queue_pair == side.queue_pair : retired == side.retired;
  }
};

/// A ring of bytes in which payloads lie.
struct Arena {
  const std::byte* data;
  std::uint32_t size;  ///< A power of two.
  [[nodiscard]] std::uint32_t place(std::uint32_t position) const noexcept {
    return position & (size - 1);
  }
};

/// A shared ring that was replaced, because a process was stopped while it wrote to it: see
/// control/late_rings.hpp.
struct LateRing {
  std::uint32_t line;  // Its producers' line.
  std::uint32_t next;  // The number of its next entry.
  CompletionEntry* entries;
  Arena arena;
  std::uint32_t capacity;
  std::uint64_t offset;  // What was allocated for it.
  std::uint64_t bytes;
};

struct CompletionQueue {
  ibv_cq_ex raw;  // Its beginning is an ibv_cq.
  Engine* engine;
  std::uint32_t index;
  SharedCompletionQueue* shared;
  std::atomic<CompletionEntry*> entries;  // The shared ring and its arena, in our own segment.
  const std::byte* arena;
  std::uint32_t arena_bytes;
  Ranked<LockRank::completer, SpinLock> lock;  // Guards what follows.
  std::uint32_t capacity;                      // Of both rings, a power of two.
  std::uint32_t depth;                         // What may be in them together.
  bool has_channel = false;
  std::uint32_t own_receives =
      0;  // How many of our own are receives: those of peers come after them.
  std::uint32_t full_polls =
      0;  // How many polls in a row our own filled: those of peers wait meanwhile.
  std::uint32_t late_count = 0;  // How many rings of earlier times a producer may still write to.
  LateRing late[kProducerLines - 1];
  std::atomic<std::uint32_t> head{0};
  std::atomic<std::uint32_t> tail{0};
  std::atomic<std::uint32_t> shared_head{0};
  std::unique_ptr<OwnCompletion[]> ring;
  std::uint64_t ring_offset;  // What was allocated for the shared ring and its arena,
  std::uint64_t ring_bytes;   // and how much.
  std::atomic<std::uint32_t> users{0};
  std::atomic<std::uint32_t> delivered{0};     // Completion events delivered to the program,
  std::atomic<std::uint32_t> acknowledged{0};  // and acknowledged.
  std::atomic<bool> overrun{false};
  std::atomic<bool> overrun_told{false};
  std::atomic<bool> breaks{false};  // While the break is being handled: its queue pairs break once.
  // Since when it owes an event (0: it does not), and what was polled until then. The helper's.
  std::uint64_t owes_since_ns = 0;
  std::uint32_t owes_after = 0;
  // The completion that an extended poll reads, and its time (steady clock). The lock is outside
  // the order of locks: the program holds it between two calls.
  SpinLock poll_lock;
  ibv_wc current;
  std::uint64_t current_ns;

  [[nodiscard]] ibv_cq* handle() noexcept { return reinterpret_cast<ibv_cq*>(&raw); }
  [[nodiscard]] static CompletionQueue& of(ibv_cq* queue) noexcept {
    return *reinterpret_cast<CompletionQueue*>(queue);
  }
};

}  // namespace verbatim::engine
