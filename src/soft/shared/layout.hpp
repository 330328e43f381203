// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What processes share: the bytes of a process's segment, and who writes which of them.
///
/// Each process owns one segment. Only the owner allocates in it, so no allocator is shared. Peers
/// map it. It holds indices and offsets, never pointers. Every value read from memory that a peer
/// can write is checked before use: a hostile peer must not crash us.
///
/// Processes of two builds may meet. They use each other's segment only if their versions are
/// equal. The version is computed from the text of this file (layout_version), so a change here
/// cannot be forgotten there.
///
/// Cache lines are grouped by writer, so that a line travels between cores only when it has news.
///
/// Types only: owns nothing. Any thread of any process of the user reads and writes here. The words
/// named `lock`, and `atomics`, are the locks in shared memory (tagged_lock.hpp), of the ranks
/// `datagrams`, `completions`, `atomics` and `relay`. Hot.
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace verbatim::engine {

inline constexpr std::uint64_t kMagic = 0x31746f6f73626576;  // "vebsoot1"
/// Increment it when the same bytes mean something else, which this file does not show.
inline constexpr std::uint32_t kMeaning = 2;

inline constexpr std::uint32_t kProcessSlots = 1024;    // 10 bits of a queue pair number
inline constexpr std::uint32_t kQueuePairs = 1u << 14;  // the other 14
inline constexpr std::uint32_t kCompletionQueues = 1u << 12;
inline constexpr std::uint32_t kSharedQueues = 1u << 10;
inline constexpr std::uint32_t kRegions = 1u << 16;
inline constexpr std::uint32_t kMemoryObjects = 1u << 12;

inline constexpr std::uint32_t kMaxElements = 16;   // per work request
inline constexpr std::uint32_t kEagerBytes = 2048;  // above: straight into the buffer
inline constexpr std::uint32_t kEntryPayload = 32;  // small enough to ride in the completion
inline constexpr std::uint32_t kArenaUnit = 64;     // payloads in an arena begin at a line
inline constexpr std::uint32_t kProducerLines = 4;  // of a completion queue, one of them in use
inline constexpr std::uint32_t kRelayBoxes = 4;     // requests to one owner at the same time

inline constexpr std::uint64_t kPage = 4096;

using Word = std::atomic<std::uint32_t>;
using LongWord = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && LongWord::is_always_lock_free);

/// How a completion's payload travels.
enum class Payload : std::uint8_t {
  placed,    ///< Already in the receive's memory.
  in_entry,  ///< In the entry.
  in_arena,  ///< In the queue's arena; the entry's data begin with the position (a running number).
};

/// What a completion says.
struct EntryHead {
  std::uint8_t opcode;  // ibv_wc_opcode, receives only
  std::uint8_t flags;   // ibv_wc_flags
  Payload payload;
  std::uint8_t status;       // ibv_wc_status
  std::uint32_t queue_pair;  // index of the owner's queue pair
  std::uint32_t receive;     // the one it completes (a running number)
  std::uint32_t byte_count;
  std::uint32_t immediate;   // as on the wire
  std::uint32_t source;      // the sender's queue pair number
  std::uint32_t source_lid;  // and the address of its port; 0 on Ethernet
};

/// One completion from the peer's side of an operation, written by the requester.
struct alignas(64) CompletionEntry {
  Word sequence;  // index + 1 once published; written last
  EntryHead head;
  std::byte data[kEntryPayload];
};
static_assert(sizeof(CompletionEntry) == 64);

/// What the producers of a completion queue share. If a process stops while it holds the lock, the
/// owner gives the queue another line and another ring: see control/late_rings.hpp.
struct alignas(64) ProducerLine {
  Word lock;  // tag of the holder
  Word tail;
  std::uint32_t head_seen;  // a copy of `head`, so that its line is read only when full
  std::uint32_t arena_tail;
  std::uint32_t arena_seen;  // likewise of `arena_head`
  Word riding_end;           // one past the last entry with a payload that is not placed
  Word riding_settled;       // the last value of it that was found to be behind `head`
};

/// A completion queue as producers see it. Only receives go through it. A process's own sends
/// complete in private memory, so these lines do not travel when a program sends.
///
/// Payloads too big for an entry ride in the arena, a ring of bytes. Entries are taken in order, so
/// room in the arena is freed in order, too. One arena serves all queue pairs of the queue.
struct alignas(64) SharedCompletionQueue {
  // Written by the owner, rarely.
  Word generation;         // odd: in use
  Word failed;             // an overrun happened
  std::uint32_t capacity;  // of the ring, a power of two
  std::uint32_t depth;     // what the user asked for, at most capacity
  LongWord ring;           // offset of the CompletionEntry array, plus the index of the line;
                           // the arena follows the array
  std::uint32_t channel;   // number of the completion channel's FIFO, or 0
  Word late;               // how many lines of earlier times may still be written to
  // Written by producers, rarely, for the owner.
  Word unheard;  // an event is not in the channel: the owner must write it
  Word stuck;    // tag of a process that holds the lock of the line and does not let go
  ProducerLine lines[kProducerLines];
  // Written by the owner at every poll.
  alignas(64) Word head;
  Word own_count;  // completions in the owner's private ring
  Word armed;      // see completer/shared_ring.hpp
  Word arena_head;
};
/// The size of the arena, which is large enough for a burst of small messages, and never larger
/// than the ring's entries can use. It follows from `capacity` alone: whoever finds the same ring
/// and the same capacity twice knows that the arena is the same, too.
[[nodiscard]] constexpr std::uint32_t arena_bytes_of(std::uint32_t capacity) noexcept {
  constexpr std::uint32_t kLeast = 4 * 1024;
  constexpr std::uint32_t kMost = 64 * 1024;
  constexpr std::uint32_t kPerEntry = 512;
  return capacity <= kLeast / kPerEntry  ? kLeast
         : capacity >= kMost / kPerEntry ? kMost
                                         : capacity * kPerEntry;
}
/// The ring and its arena.
[[nodiscard]] constexpr std::uint64_t ring_bytes_of(std::uint32_t capacity) noexcept {
  return std::uint64_t{capacity} * sizeof(CompletionEntry) + arena_bytes_of(capacity);
}

/// Rings begin at a whole line, so the index of the producers' line fits below.
static_assert(kProducerLines <= kArenaUnit);
[[nodiscard]] constexpr std::uint32_t line_of(std::uint64_t ring) noexcept {
  return static_cast<std::uint32_t>(ring % kArenaUnit % kProducerLines);
}
[[nodiscard]] constexpr std::uint64_t offset_of(std::uint64_t ring) noexcept {
  return ring - ring % kArenaUnit;
}
[[nodiscard]] inline ProducerLine& current_line(SharedCompletionQueue& queue) noexcept {
  return queue.lines[line_of(queue.ring.load(std::memory_order_acquire))];
}

/// A receive request, for requesters. Each is followed by as many elements as the queue allows.
struct SharedElement {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t key;
};
/// In place of a count: nothing was posted under this number, because its place is still in use.
/// The length is then how many numbers were skipped so far.
inline constexpr std::uint32_t kSkipped = ~std::uint32_t{0};
/// In place of an index + 1: its requester could not use it.
inline constexpr std::uint32_t kGivenBack = kQueuePairs + 1;
struct ReceiveSlot {
  LongWord state;  // slot_state(); written last by the owner when it posts
  std::uint32_t count;
  std::uint32_t length;  // of all elements
};
/// {who took it, running number + 1 once posted}. The first half is 0, or for shared queues index +
/// 1 of the owner's queue pair that it was taken for, or kGivenBack. One word, so that a receive of
/// a shared queue is taken by one compare-and-exchange.
[[nodiscard]] constexpr std::uint64_t slot_state(std::uint32_t number,
                                                 std::uint32_t taker) noexcept {
  return std::uint64_t{taker} << 32 | (number + 1);
}
[[nodiscard]] constexpr bool is_posted(std::uint64_t state, std::uint32_t number) noexcept {
  return static_cast<std::uint32_t>(state) == number + 1;
}
[[nodiscard]] constexpr std::uint32_t taker_of(std::uint64_t state) noexcept {
  return static_cast<std::uint32_t>(state >> 32);
}
static_assert(sizeof(ReceiveSlot) == 16 && sizeof(SharedElement) == 16);
/// From one slot to the next: whole lines.
[[nodiscard]] constexpr std::uint32_t slot_stride(std::uint32_t max_elements) noexcept {
  constexpr std::uint32_t kLine = 64;
  return (static_cast<std::uint32_t>(sizeof(ReceiveSlot)) +
          max_elements * static_cast<std::uint32_t>(sizeof(SharedElement)) + kLine - 1) /
         kLine * kLine;
}

/// {how many times it was armed, event below this many receives}; the second half is 0 once the
/// event was raised. The count tells an arming from the next one with the same limit.
[[nodiscard]] constexpr std::uint64_t limit_word(std::uint32_t armings,
                                                 std::uint32_t limit) noexcept {
  return std::uint64_t{armings} << 32 | limit;
}
[[nodiscard]] constexpr std::uint32_t armings_of(std::uint64_t limit) noexcept {
  return static_cast<std::uint32_t>(limit >> 32);
}
[[nodiscard]] constexpr std::uint32_t limit_of(std::uint64_t limit) noexcept {
  return static_cast<std::uint32_t>(limit);
}

/// A ring of receive requests: a queue pair's own, or a shared receive queue's.
struct alignas(64) SharedReceives {
  // Written by the owner, rarely.
  std::uint32_t capacity;      // of the ring, a power of two
  std::uint32_t max_elements;  // per slot
  std::uint64_t slots;         // offset of the slots
  Word starved;                // tag of a requester that waits for a receive
  Word given_back;             // for the owner: offer receives again whose taker is kGivenBack
  LongWord limit;              // shared receive queues: limit_word()
  LongWord limit_reached;      // for the owner: raise the event, if `limit` is still this
  // Written by the owner at every post; read only when there is a limit.
  alignas(64) Word posted;  // running count of receives posted, without skipped numbers
  // The line of requesters. A shared queue uses only `taken` and `passed`.
  alignas(64) Word lock;  // tag of the holder: for datagrams, which come from several senders
  Word taken;             // running number of receives consumed
  LongWord entered;       // {running count, tag} of the requester inside the queue pair; 0: nobody
  Word touching;          // key of the memory that it copies to or from; see access_guard.hpp
  Word fault;             // an ibv_wc_status that the owner must turn into an error, or 0
  Word passed;            // how many of the numbers below `taken` were skipped
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
  Word peer;                          // connected: the only number that may enter
  std::uint32_t expected_psn;         // what the peer's first packet must carry
  std::uint32_t device;               // index: the port's addresses follow from it
  std::uint32_t max_responses;        // reads and atomics at once; 0: none
  std::uint32_t receive_completions;  // index of the completion queue
  std::uint32_t shared_receives;      // index + 1 of a shared receive queue, or 0
  std::uint32_t rnr_timer;
  Word established;  // 0, or 1 once a message arrived before RTS, or 2 once that was reported
  Word watches;      // 1: the owner reads its peer's `visiting` before it takes something away
  SharedReceives receives;
  // Written by the owner as a requester, on its fast path; see access_guard.hpp.
  alignas(64) LongWord visiting;  // {number of the request, key that it touches}; 0: outside
};
/// A key that no region has, because its tag is 0: in `visiting`, for a request that touches none.
inline constexpr std::uint32_t kNoMemory = 1u << 16;

/// A memory region as requesters check it. `key` is written last when created, first when removed.
/// Peers map this table read-only.
struct alignas(64) SharedRegion {
  Word key;  // region_key(index, tag); 0: none
  std::uint32_t domain;
  std::uint32_t access;
  std::uint32_t object;  // index + 1 of the memory object it lies in; 0: none; kPartlyObject
  std::uint64_t base;    // the first byte, as work requests name it
  std::uint64_t length;
  std::uint64_t address;  // in the owner's address space
  std::uint64_t object_offset;
  std::uint32_t tag;  // the last one that this place had, for the owner
};
static_assert(sizeof(SharedRegion) == 64);
/// Small messages to a region may wait in completion queues, of which there are this many groups.
/// The region's mark has two bits for each. Whoever needs the memory up to date looks at the first:
/// messages may be on their way. A sender looks at the second: other regions with the same memory
/// are marked, too, and cached copies are stale, so there is nothing left to do.
inline constexpr std::uint32_t kMarkGroups = 16;
inline constexpr std::uint32_t kRidingMarks = (1u << kMarkGroups) - 1;
[[nodiscard]] constexpr std::uint32_t riding_mark(std::uint32_t group) noexcept {
  return 1u << group;
}
[[nodiscard]] constexpr std::uint32_t known_mark(std::uint32_t group) noexcept {
  return 1u << (kMarkGroups + group);
}
/// In place of an object: some of the region is in memory objects and some is not.
inline constexpr std::uint32_t kPartlyObject = ~std::uint32_t{0};

/// A key is the place in the table, and a tag that counts up each time the place is used again.
inline constexpr std::uint32_t kRegionTagBits = 16;
[[nodiscard]] constexpr std::uint32_t region_key(std::uint32_t index, std::uint32_t tag) noexcept {
  return index << kRegionTagBits | tag;
}
/// For any key: always less than kRegions.
[[nodiscard]] constexpr std::uint32_t region_index(std::uint32_t key) noexcept {
  return key >> kRegionTagBits;
}
static_assert(kRegions == 1u << (32 - kRegionTagBits));

/// What peers can open: /proc/<pid>/fd/<fd>, if it is still that inode. Memory, or the pipe of a
/// completion channel (then `bytes` is 0).
struct MemoryObject {
  Word fd;  // + 1; 0: none
  std::uint32_t reserved;
  std::uint64_t inode;
  std::uint64_t bytes;
};

/// A completion channel whose number has this bit is a pipe: the other bits are the index of the
/// object that names it. Without the bit, it is a FIFO in the directory.
inline constexpr std::uint32_t kPipeChannel = 1u << 31;

/// What a requester asks of the owner's helper thread (memory/relay).
enum class RelayWork : std::uint32_t { read, write, fetch_add, compare_swap };
enum class RelayState : std::uint8_t {
  idle,
  asked,   // by the requester; it may take the request back
  busy,    // claimed by the owner: nobody else touches the box
  done,    // answered
  failed,  // answered: no such memory
  later,   // answered: not done, ask again
};

/// A request to the owner to copy, or to do an atomic, on a peer's behalf. `turn` is {sequence,
/// state}: an answer belongs to exactly one request. There are several, so that a requester that
/// stops with one in its hands is in nobody's way.
struct alignas(64) RelayBox {
  Word lock;  // tag of the requester
  RelayWork work;
  LongWord turn;
  std::uint32_t key;  // of the region
  std::uint32_t length;
  std::uint64_t address;      // in the owner's memory
  std::uint64_t compare_add;  // atomics,
  std::uint64_t swap;
  std::uint64_t old;  // and the old value
  std::byte data[4096 - 64];
};
static_assert(sizeof(RelayBox) == 4096);

/// Room for one bit per page of the tables.
inline constexpr std::uint32_t kTablePages = 1u << 13;

struct Segment {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slot;
  std::uint64_t nonce;  // distinguishes two users of one slot
  std::uint32_t pid;
  std::uint32_t is_ordered;     // 1: membarrier's expedited commands reach it
  std::uint64_t pid_namespace;  // inode
  std::uint64_t start_time;     // of the process, in clock ticks: guards against pid reuse
  std::uint64_t probe_address;  // in the owner's memory: a copy of `nonce`, to try process_vm on
  Word helper_serves;           // the owner's helper thread answers relay requests
  alignas(64) Word doorbell;    // rung by peers; the helper sleeps on it
  Word helper_sleeps;
  Word attention;                // some object's cry for its owner is set
  Word unsettled;                // a peer waits until payloads in the rings are placed
  Word completion_queues_end;    // one past the last that was ever created
  alignas(64) LongWord changes;  // of what requesters may have learned; see changes.hpp
  alignas(64) Word atomics;      // lock: atomics on memory that is in no object
  // Which pages of the tables have memory behind them; the others fault when /dev/shm is full.
  alignas(64) Word regions_backed;  // this many of `regions` and `region_marks`, from the first
  Word regions_overlap;             // 1: some of them have had memory in common
  Word backed[kTablePages / 32];    // by page, from the beginning of the segment
  alignas(64) RelayBox relay[kRelayBoxes];
  MemoryObject objects[kMemoryObjects];
  SharedCompletionQueue completion_queues[kCompletionQueues];
  SharedReceives shared_receives[kSharedQueues];
  SharedQueuePair queue_pairs[kQueuePairs];
  alignas(kPage) SharedRegion regions[kRegions];  // peers map these pages read-only
  alignas(kPage) Word region_marks[kRegions];     // by region; written by requesters
  // Rings follow, page by page: see segment.hpp.
};

inline constexpr std::uint64_t kRingsOffset = (sizeof(Segment) + kPage - 1) / kPage * kPage;
static_assert(kRingsOffset / kPage <= kTablePages);
/// Address space, not memory: the file is sparse, and only what is used is backed.
inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{1} << 30;

/// The version of this build's layout; `text` is the hash of a file like this one.
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
