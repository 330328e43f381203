// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The other processes, as this one sees them: their segments, their memory, whether they
/// live.
///
/// A Peer owns what we have of one process: the mapping of its segment, windows into its memory
/// objects, open FIFOs of its completion channels. It is reference-counted: Peers keeps one
/// reference to each living peer, and a queue pair one to the peer that it is aimed at. The table
/// drops a dead peer at once, and the last reference returns everything to the system.
///
/// A window is one immutable record behind one atomic pointer, so its address, size and inode
/// belong together. A window that the owner has freed is removed from the table and retired. It is
/// unmapped when no thread of ours can be copying in it (control/reclaim.hpp).
///
/// Threads: any. Locks: `Peers::mutex_` (rank `peers`) while a peer is attached (waits for the file
/// system); inside it `Peers::table_lock_`, for a few instructions; `Peer::mutex_` (rank `peer`)
/// while a window or a FIFO is opened (waits for the file system), nothing inside it. window(),
/// region() and was_alive_lately() are hot and take none. Posting and polling are no cancellation
/// points, so whatever opens or closes a file here is Uncancelled.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/liveness.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/spin.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::engine {

/// How to reach a peer's memory that is not in a memory object.
enum class MemoryPath : std::uint8_t {
  direct,   ///< It is our own process.
  process,  ///< process_vm_readv / writev.
  relay,    ///< The peer's helper thread copies.
};

/// A memory object of a peer, mapped here.
struct Window {
  std::byte* address;
  std::uint64_t bytes;
  std::uint64_t inode;
  Window* next = nullptr;  ///< Used when it is retired.
};
/// Unmaps and frees a list of them.
void unmap(Window* windows) noexcept;

/// A table of one window for each memory object.
inline constexpr std::size_t kWindowTableBytes = kMemoryObjects * sizeof(std::atomic<Window*>);

class Peers;

class Peer {
 public:
  /// Ourselves. `regions` is the trusted table, which others cannot write.
  Peer(Segment& own, const SharedRegion* regions) noexcept;
  /// Another process: its segment, mapped, and the file. `windows` is room for as many pointers as
  /// there can be memory objects. A pid of 0 names nobody in our namespace.
  struct Attached {
    Segment& segment;
    int fd;
    void* windows;
    MemoryPath path;
    std::uint32_t pid;
  };
  Peer(Peers& all, const Attached& attached) noexcept;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] Segment& segment() const noexcept { return *segment_; }
  /// `index` must be below region_count().
  [[nodiscard]] const SharedRegion& region(std::uint32_t index) const noexcept {
    return regions_[index];
  }
  /// How many entries of its table of regions have memory behind them.
  [[nodiscard]] std::uint32_t region_count() const noexcept {
    return region_count_->load(std::memory_order_relaxed);
  }
  /// Its queue pair with that index; nullptr: there is no memory behind that place of the table.
  [[nodiscard]] SharedQueuePair* queue_pair(std::uint32_t index) const noexcept {
    SharedQueuePair* const entry = &segment_->queue_pairs[index];
    return index < kQueuePairs && is_backed(entry, sizeof *entry) ? entry : nullptr;
  }
  [[nodiscard]] SharedCompletionQueue* completion_queue(std::uint32_t index) const noexcept {
    SharedCompletionQueue* const entry = &segment_->completion_queues[index];
    return index < kCompletionQueues && is_backed(entry, sizeof *entry) ? entry : nullptr;
  }
  /// Whether a part of its tables has memory behind it; if not, touching it may be a SIGBUS. This
  /// is the peer's own claim: if it lies, fault_guard.hpp catches the fault.
  [[nodiscard]] bool is_backed(const void* entry, std::size_t bytes) const noexcept;

  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }
  [[nodiscard]] bool is_self() const noexcept { return path_ == MemoryPath::direct; }
  [[nodiscard]] MemoryPath memory_path() const noexcept { return path_; }
  /// Its pid, if that names it in our namespace and it is alive at this moment; else 0.
  [[nodiscard]] std::uint32_t live_pid() noexcept {
    return pid_ != 0 && liveness_.holds_lock() ? pid_ : 0;
  }

  /// Its memory as a file: always of this process, never of a later one with its pid, and empty
  /// once the process is dead. -1: the kernel does not give it to us.
  [[nodiscard]] int memory_file() noexcept {
    const int known = memory_file_.load(std::memory_order_acquire);
    return known != kNotOpened ? known : open_memory();
  }

  [[nodiscard]] bool is_alive() noexcept { return liveness_.is_alive(); }
  [[nodiscard]] bool seems_alive() noexcept { return liveness_.seems_alive(); }
  [[nodiscard]] bool was_alive_lately() const noexcept { return liveness_.was_alive_lately(); }
  /// Whether it is alive, but a signal or a debugger has stopped it; false if that cannot be seen.
  [[nodiscard]] bool is_stopped() noexcept;
  /// Whether its memory is still there: a dying process loses it before its lock. Slow.
  [[nodiscard]] bool has_memory() const noexcept;

  /// The memory object, mapped here; nullptr: it cannot be mapped. Valid while the caller holds the
  /// lock of one of our queue pairs, taken before the call.
  [[nodiscard]] const Window* window(std::uint32_t index) noexcept {
    const Window* const known = windows_[index].load(std::memory_order_acquire);
    if (known != nullptr && is_current(index, *known)) [[likely]]
      return known;
    return map_window(index);
  }

  void ring_doorbell() noexcept;
  /// Asks the owner to look at its objects: one of them has a cry set.
  void call_attention() noexcept {
    segment_->attention.store(1);
    ring_doorbell();
  }
  /// Writes a message to one of its completion channels. False: the channel is full, or it cannot
  /// be opened, because it is gone, or we lack the rights. For ourselves it means that it is full.
  [[nodiscard]] bool write_channel(const Directory& directory, std::uint32_t number,
                                   std::span<const std::byte> message) noexcept;
  /// Only for ourselves: a channel of ours, and the descriptor to write to, which does not block.
  /// It stays the caller's. We may be unable to open the channel again later (setuid, chroot, no
  /// descriptors). False: no memory.
  [[nodiscard]] bool add_own_channel(std::uint32_t number, int fd) noexcept;
  void remove_own_channel(std::uint32_t number) noexcept;

 private:
  friend class PeerRef;
  friend class Peers;
  struct Channel {
    std::uint32_t number = 0;
    int fd = -1;
    std::uint64_t used = 0;   // Larger: later.
    std::uint64_t inode = 0;  // Of a pipe, whose number may be given to another one.
  };
  using WindowSlot = std::atomic<Window*>;

  ~Peer();
  [[nodiscard]] bool is_current(std::uint32_t index, const Window& window) const noexcept {
    return __atomic_load_n(&segment_->objects[index].inode, __ATOMIC_RELAXED) == window.inode;
  }
  [[nodiscard]] const Window* map_window(std::uint32_t index) noexcept;
  [[gnu::cold]] int open_memory() noexcept;
  [[nodiscard]] int open_object(std::uint32_t index, std::uint64_t& inode) noexcept;
  [[nodiscard]] int open_channel(const Directory& directory, std::uint32_t number) noexcept;
  [[nodiscard]] std::uint64_t pipe_inode(std::uint32_t number) const noexcept;
  [[nodiscard]] int channel_file(const Directory& directory, std::uint32_t number) noexcept;
  /// Retires the windows that their owner has freed, or all; the caller owns what is returned.
  [[nodiscard]] Window* retire_windows(bool all) noexcept;
  void close_channels() noexcept;

  Peers* all_;
  Segment* segment_;
  const SharedRegion* regions_;
  const Word* region_count_;
  std::uint32_t tag_;
  std::uint32_t pid_;  // 0: it names nobody in our namespace.
  MemoryPath path_;
  static constexpr int kNotOpened = -2;
  std::atomic<int> memory_file_{kNotOpened};
  std::atomic<std::uint32_t> references_{1};
  Liveness liveness_;
  WindowSlot* windows_ = nullptr;  // kMemoryObjects of them, in separate pages.

  Ranked<LockRank::peer, std::mutex> mutex_;  // Guards the rest.
  std::uint32_t windows_end_ = 0;             // No slot from here on was ever used.
  Window* retired_ = nullptr;                 // Replaced by newer ones.
  std::array<Channel, 8> channels_{};
  std::uint64_t channel_uses_ = 0;
  std::map<std::uint32_t, int> own_channels_;
  Peer* next_departed_ = nullptr;  // In the list of Peers; under its lock.
};

/// A counted handle.
class PeerRef {
 public:
  PeerRef() noexcept = default;
  PeerRef(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): as of a pointer
  PeerRef(const PeerRef& other) noexcept : peer_(other.peer_) {
    if (peer_ != nullptr) peer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  PeerRef(PeerRef&& other) noexcept : peer_(std::exchange(other.peer_, nullptr)) {}
  PeerRef& operator=(PeerRef other) noexcept {
    std::swap(peer_, other.peer_);
    return *this;
  }
  ~PeerRef() {
    if (peer_ != nullptr && peer_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete peer_;
  }

  [[nodiscard]] Peer* get() const noexcept { return peer_; }
  Peer* operator->() const noexcept { return peer_; }
  Peer& operator*() const noexcept { return *peer_; }
  explicit operator bool() const noexcept { return peer_ != nullptr; }
  friend bool operator==(const PeerRef& one, const PeerRef& other) noexcept = default;
  friend bool operator==(const PeerRef& one, std::nullptr_t) noexcept {
    return one.peer_ == nullptr;
  }

 private:
  friend class Peers;
  explicit PeerRef(Peer* counted) noexcept : peer_(counted) {}
  Peer* peer_ = nullptr;
};

class Peers {
 public:
  explicit Peers(const Directory& directory) : directory_(directory) {}
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Our own process: its segment is already mapped.
  void add_self(Segment& own, const SharedRegion* regions);
  [[nodiscard]] Peer& self() const noexcept { return *self_; }
  /// The process in a slot; maps it if it is new there. Empty: there is none, or there is no memory
  /// to attach it.
  [[nodiscard]] PeerRef find(std::uint32_t slot) noexcept;
  /// The process in a slot, if it is attached already. It may be dead.
  [[nodiscard]] PeerRef at(std::uint32_t slot) noexcept;
  /// Whether the process that wrote `tag` into a lock is known to be dead. False if it is alive, or
  /// if we cannot find out (no descriptors, no rights, another root directory): nobody may take
  /// over from a process that may be alive.
  [[nodiscard]] bool is_dead(std::uint32_t tag) noexcept;
  /// Whether that process lives, but was stopped by a signal or a debugger.
  [[nodiscard]] bool is_stopped(std::uint32_t tag) noexcept;

  /// Drops dead peers, and returns the windows that are no longer of use: the caller unmaps them
  /// when no thread can be copying in them.
  [[nodiscard]] Window* retire() noexcept;
  /// Whether something was retired that retire() has not returned yet.
  [[nodiscard]] bool has_retired() const noexcept {
    return has_retired_.load(std::memory_order_relaxed);
  }

  // The table is consistent while a fork happens.
  void before_fork() noexcept;
  void after_fork() noexcept;

 private:
  friend class Peer;
  [[nodiscard]] PeerRef attach(std::uint32_t slot) noexcept;
  void note_retired() noexcept;
  /// Moves the table's reference to a dead peer to the departed.
  void drop(std::uint32_t slot, const Peer* dead) noexcept;

  Directory directory_;
  Peer* self_ = nullptr;
  std::atomic<bool> has_retired_{false};
  Ranked<LockRank::peers, std::mutex> mutex_;
  Ranked<LockRank::peer_table, SpinLock> table_lock_;  // Guards what follows.
  std::array<Peer*, kProcessSlots> current_{};
  std::uint32_t slots_end_ = 0;  // No slot from here on was ever used.
  Peer* departed_ = nullptr;
};

/// Whether the kernel lets us read the process's memory: tried on a word whose value we know.
[[nodiscard]] bool process_vm_works(const Segment& segment) noexcept;

/// Which paths the environment allows (`VERBATIM_SOFT_MEMORY`: mapped, process, relay; each
/// disables those before it). For tests and queries.
struct MemoryPolicy {
  bool map_objects = true;
  bool process_vm = true;
};
[[nodiscard]] MemoryPolicy memory_policy() noexcept;

}  // namespace verbatim::engine
