// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What processes share: the bytes of a process's segment, and who writes which of them.
///
/// Each process owns one segment: only the owner allocates in it, so no allocator is shared. Peers
/// map it. It holds indices and offsets, never pointers, and every value that a process reads from
/// memory which a peer can write is checked before use: a scribbling peer must not crash us.
///
/// Processes of two builds may meet, and use each other's segment only if their versions are the
/// same. The version follows from the text of this file (layout_version), so a change here cannot
/// be forgotten there.
///
/// Lines are grouped by writer, so that a line travels between cores only when it has news.
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

inline constexpr std::uint64_t kMagic = 0x31746f6f73626576;  // "vebsoot1"
/// Raise it when the same bytes mean something else: what this file does not say.
inline constexpr std::uint32_t kMeaning = 1;

inline constexpr std::uint32_t kProcessSlots = 1024;    // 10 bits of a queue pair number
inline constexpr std::uint32_t kQueuePairs = 1u << 14;  // the other 14
inline constexpr std::uint32_t kCompletionQueues = 1u << 12;
inline constexpr std::uint32_t kSharedQueues = 1u << 10;
inline constexpr std::uint32_t kRegions = 1u << 16;
inline constexpr std::uint32_t kMemoryObjects = 1u << 12;

inline constexpr std::uint32_t kMaxElements = 16;   // per work request
inline constexpr std::uint32_t kEagerBytes = 2048;  // above: straight into the buffer
inline constexpr std::uint32_t kEntryPayload = 32;  // small enough to ride in the completion

using Word = std::atomic<std::uint32_t>;
using LongWord = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && LongWord::is_always_lock_free);

/// How a completion's payload travels.
enum class Payload : std::uint8_t { placed, in_entry, in_slot };

/// One completion from the peer's side of an operation, written by the requester.
struct alignas(64) CompletionEntry {
  Word sequence;        // index + 1 once published; written last
  std::uint8_t opcode;  // ibv_wc_opcode, receives only
  std::uint8_t flags;   // ibv_wc_flags
  Payload payload;
  std::uint8_t status;       // ibv_wc_status
  std::uint32_t queue_pair;  // index of the owner's queue pair
  std::uint32_t slot;        // the receive request it completes (a running number)
  std::uint32_t byte_count;
  std::uint32_t immediate;  // as on the wire
  std::uint32_t source;     // the sender's queue pair number
  std::uint32_t reserved;
  std::byte data[kEntryPayload];
};
static_assert(sizeof(CompletionEntry) == 64);

/// A completion queue as producers see it. Only receives go through it; a process's own sends
/// complete in private memory, so this does not travel when a program sends.
struct alignas(64) SharedCompletionQueue {
  // Written by the owner, rarely.
  Word generation;         // odd: in use
  Word failed;             // an overrun happened
  std::uint32_t capacity;  // of the ring, a power of two
  std::uint32_t depth;     // what the user asked for, at most capacity
  std::uint64_t ring;      // offset of the CompletionEntry array
  std::uint32_t channel;   // number of the completion channel's FIFO, or 0
  // Written by producers, under the lock.
  alignas(64) Word lock;  // process slot + 1 of the holder
  Word tail;
  std::uint32_t head_seen;  // a copy of `head`, so that its line is read only when full
  // Written by the owner at every poll.
  alignas(64) Word head;
  Word own_count;  // completions in the owner's private ring
  Word armed;      // 0 no, 1 solicited only, 2 any
};

/// A receive request, for requesters.
struct SharedElement {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t key;
};
/// Instead of a count: nothing was posted under this number, because its place is still in use.
inline constexpr std::uint32_t kSkipped = ~std::uint32_t{0};
struct alignas(64) ReceiveSlot {
  Word sequence;  // running number + 1 once posted; written last, by the owner
  std::uint32_t count;
  std::uint32_t length;  // of all elements
  std::uint32_t reserved;
  SharedElement elements[kMaxElements];
};

/// A ring of receive requests: a queue pair's own, or a shared receive queue's.
struct alignas(64) SharedReceives {
  // Written by the owner, rarely.
  std::uint32_t capacity;     // of the rings, a power of two
  std::uint32_t eager_bytes;  // per slot
  std::uint64_t slots;        // offset of the ReceiveSlot array
  std::uint64_t eager;        // offset of capacity * eager_bytes
  Word starved;               // process slot + 1 of a requester that waits for a receive
  Word limit;                 // shared receive queues: event below this many; 0: none
  Word limit_reached;         // for the owner: raise that event
  // Written by the owner at every post; read only when there is a limit.
  alignas(64) Word posted;  // running number of receives posted
  // Written by requesters: the queue pair's lock, or this one for a shared queue.
  alignas(64) Word lock;
  Word taken;  // running number of receives consumed
};

/// A queue pair as its peers see it.
struct alignas(64) SharedQueuePair {
  // Written by the owner.
  Word state;            // ibv_qp_state; anything but RTR and up refuses entry
  std::uint32_t number;  // the full 24 bits; 0: free
  std::uint32_t type;    // ibv_qp_type
  std::uint32_t domain;
  std::uint32_t access;
  std::uint32_t queue_key;
  std::uint32_t peer;             // connected: the only number that may enter
  std::uint32_t receive_queue;    // index of the completion queue
  std::uint32_t shared_receives;  // index + 1 of a shared receive queue, or 0
  std::uint32_t rnr_timer;
  std::uint32_t mtu;
  Word established;  // a first message arrived
  // Written by requesters. `entered` is {running count, process slot + 1}; 0: nobody is inside.
  alignas(64) LongWord entered;
  Word fault;  // an ibv_wc_status that the owner must turn into an error, or 0
  // The receive ring of this queue pair.
  SharedReceives receives;
};

/// A memory region as requesters check it. `key` is written last when made, first when removed.
struct alignas(64) SharedRegion {
  Word key;  // index << 8 | tag; 0: none
  std::uint32_t domain;
  std::uint32_t access;
  std::uint32_t object;  // index + 1 of the memory object it lies in, or 0
  std::uint64_t base;    // as work requests name the first byte
  std::uint64_t length;
  std::uint64_t address;  // in the owner's address space
  std::uint64_t object_offset;
};
static_assert(sizeof(SharedRegion) == 64);

/// Memory that peers can map: /proc/<pid>/fd/<fd>, if it is still that inode.
struct MemoryObject {
  Word fd;  // + 1; 0: none
  std::uint32_t reserved;
  std::uint64_t inode;
  std::uint64_t bytes;
};

/// A request to the owner's helper thread to copy on a peer's behalf (soft/relay).
struct alignas(64) RelayBox {
  Word lock;            // process slot + 1 of the requester
  Word state;           // 0 idle, 1 asked, 2 done, 3 failed
  std::uint32_t write;  // 1: data -> address; 0: address -> data
  std::uint32_t length;
  std::uint64_t address;
  std::byte data[4096 - 32];
};

struct Segment {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slot;
  std::uint64_t nonce;  // tells two users of one slot apart
  std::uint32_t pid;
  std::uint32_t reserved;
  std::uint64_t pid_namespace;  // inode
  std::uint64_t start_time;     // of the process, in clock ticks: guards against pid reuse
  std::uint64_t probe_address;  // in the owner's memory: a copy of `nonce`, to try process_vm on
  Word helper_serves;           // the owner's helper thread answers relay requests
  alignas(64) Word doorbell;    // rung by peers; the helper sleeps on it
  Word helper_sleeps;
  Word attention;                // some object's cry for its owner is set
  alignas(64) LongWord changes;  // of what requesters may have learnt; see known_ranges.hpp
  alignas(64) Word atomics;      // lock: atomics on memory that not every process maps
  alignas(64) RelayBox relay;
  MemoryObject objects[kMemoryObjects];
  SharedCompletionQueue completion_queues[kCompletionQueues];
  SharedReceives shared_receives[kSharedQueues];
  SharedQueuePair queue_pairs[kQueuePairs];
  SharedRegion regions[kRegions];
  // Rings follow, page by page: see segment.hpp.
};

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kRingsOffset = (sizeof(Segment) + kPage - 1) / kPage * kPage;
/// Address space, not memory: the file is sparse, and only what is used is backed.
inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{1} << 30;

/// Of this build's layout; `text` stands for that of a file like this one.
[[nodiscard]] std::uint32_t layout_version() noexcept;
[[nodiscard]] std::uint32_t layout_version(std::uint32_t text) noexcept;

[[nodiscard]] constexpr std::uint32_t number_of(std::uint32_t slot, std::uint32_t index) noexcept {
  return slot << 14 | index;
}
[[nodiscard]] constexpr std::uint32_t slot_of(std::uint32_t number) noexcept {
  return number >> 14 & (kProcessSlots - 1);
}
[[nodiscard]] constexpr std::uint32_t index_of(std::uint32_t number) noexcept {
  return number & (kQueuePairs - 1);
}

}  // namespace verbatim::engine
