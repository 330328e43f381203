// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One engine per process: its segment, its peers, its objects by index, its helper thread.
///
/// Requests run in the thread that posts them. The helper thread exists for what cannot finish
/// there: a peer without a receive or not ready yet, a peer's cry for attention, relayed copies. It
/// starts when first needed and sleeps otherwise. Its work is in control/helper.cpp; creation and
/// fork are in control/engine.cpp.
///
/// Owns all of it. Any thread of the program comes here, and the helper. Has the locks `lifetime`,
/// `attention`, `contexts`, `waiting`, `helper`, `ghosts` and `serving`; each says who takes it.
/// has_work() and the look-up by index are hot and take none.
#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "base/fork_handlers.hpp"
#include "soft/shared/directory.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/objects.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/segment.hpp"

namespace verbatim::engine {

class MemoryObjects;
class Reclaimer;
class RegionSpans;
struct CompletionQueue;
struct QueuePair;
struct ReceiveSide;
struct SharedReceiveQueue;

/// Hands out indices round robin, so that a number is not reused soon. It does not go through the
/// whole table, because each place that was ever used keeps its memory. It uses a window with twice
/// as many places as there are objects.
template <class Object, std::uint32_t Count, std::uint32_t LeastWindow = 64>
class IndexTable {
 public:
  /// The index, or Count if all are taken. Nobody sees the object before show(): the helper thread
  /// goes through the tables at any time. The first call sets the start of the window.
  [[nodiscard]] std::uint32_t reserve(std::uint32_t start) noexcept {
    const std::lock_guard lock{mutex_};
    if (start_ == 0) start_ = start;
    while (window_ < kPlaces && window_ < 2 * (live_ + 1)) window_ = std::min(2 * window_, kPlaces);
    for (std::uint32_t tried = 0; tried < window_; ++tried) {
      const std::uint32_t index = kReserved + (start_ + next_++ % window_) % kPlaces;
      if (taken_[index]) continue;
      taken_[index] = true;
      ++live_;
      if (index >= end_.load(std::memory_order_relaxed)) end_.store(index + 1);
      return index;
    }
    return Count;
  }
  void show(std::uint32_t index, Object* object) noexcept {
    objects_[index].store(object, std::memory_order_release);
  }
  /// Nobody can find it any more; its index stays taken.
  void hide(std::uint32_t index) noexcept { objects_[index].store(nullptr); }
  void remove(std::uint32_t index) noexcept {
    const std::lock_guard lock{mutex_};
    objects_[index].store(nullptr);
    taken_[index] = false;
    --live_;
  }
  [[nodiscard]] Object* at(std::uint32_t index) const noexcept {
    return index < Count ? objects_[index].load(std::memory_order_acquire) : nullptr;
  }
  /// One past the last index that was ever handed out.
  [[nodiscard]] std::uint32_t end() const noexcept { return end_.load(); }
  template <class Visit>
  void for_each(const Visit& visit) const noexcept {
    for (std::uint32_t index = 0; index < end(); ++index)
      if (Object* const object = at(index)) visit(*object);
  }

 private:
  static constexpr std::uint32_t kReserved = 2;  // Queue pairs 0 and 1 are special on real ports.
  static constexpr std::uint32_t kPlaces = Count - kReserved;
  std::mutex mutex_;  // A leaf: nothing is taken under it.
  std::uint32_t start_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t window_ = LeastWindow;
  std::uint32_t live_ = 0;
  std::atomic<std::uint32_t> end_{0};  // One past the last index that was ever handed out.
  std::bitset<Count> taken_;
  std::array<std::atomic<Object*>, Count> objects_{};
};

/// A shared mutex that says whether somebody waits to take it exclusively: it prefers those who
/// share it. They may wait for other processes, so it must not hold up their helpers.
class LifetimeMutex {
 public:
  void lock() {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  void lock_shared() { mutex_.lock_shared(); }
  [[nodiscard]] bool try_lock_shared() { return mutex_.try_lock_shared(); }
  void unlock_shared() { mutex_.unlock_shared(); }
  [[nodiscard]] bool is_wanted() const noexcept {
    return waiting_.load(std::memory_order_relaxed) != 0;
  }

 private:
  std::shared_mutex mutex_;
  std::atomic<std::uint32_t> waiting_{0};
};

class Engine {
 public:
  /// The process's engine; created by the first caller, destroyed with the last.
  [[nodiscard]] static Result<std::shared_ptr<Engine>> get();
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] Segment& segment() noexcept { return *segment_; }
  [[nodiscard]] OwnSegment& own() noexcept { return *own_; }
  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  /// This process, as its own peer.
  [[nodiscard]] Peer& self() noexcept { return peers_.self(); }
  [[nodiscard]] MemoryObjects& objects() noexcept { return *objects_; }
  [[nodiscard]] RegionSpans& spans() noexcept { return *spans_; }
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }
  [[nodiscard]] const Directory& directory() const noexcept { return directory_; }

  /// Queue pairs, by the receive sides that completions look for.
  IndexTable<ReceiveSide, kQueuePairs> receive_sides;
  IndexTable<CompletionQueue, kCompletionQueues> completion_queues;
  IndexTable<SharedReceiveQueue, kSharedQueues> shared_queues;
  /// A place has 2^16 keys, so a key returns after 2^26 registrations at the earliest.
  IndexTable<Region, kRegions, 1024> regions;
  std::atomic<std::uint32_t> next_domain{1};
  std::atomic<std::uint32_t> next_channel{1};
  /// Shared while objects are looked up and used from outside their owner's calls; exclusive while
  /// one is removed and freed.
  Ranked<LockRank::lifetime, LifetimeMutex> lifetime;

  /// Held while a peer's request is served on our memory; see memory/relay.
  Ranked<LockRank::serving, std::mutex> relay_lock;
  /// If it is time to, releases what we hold of dead peers, and of memory that living peers freed.
  /// Returns when to look again (steady clock). Call it without any lock.
  std::uint64_t reclaim() noexcept;

  /// The queue pair has a waiting request; `due_ns` (steady clock) is when to look again. Takes no
  /// lock: the caller holds the queue pair's.
  void wait_for(QueuePair& queue_pair, std::uint64_t due_ns) noexcept;
  /// No thread touches the queue pair's waiting requests any more.
  void forget(QueuePair& queue_pair) noexcept;
  /// Handles waiting requests and peers' cries for attention, if there are any. Every poll calls
  /// it, so a polling program never depends on the helper. Threads that poll without end must not
  /// keep out one that waits for `lifetime`: they leave the work to the helper meanwhile.
  void progress() noexcept {
    if (has_work() && !lifetime.is_wanted()) [[unlikely]]
      progress_slowly();
  }
  [[nodiscard]] bool has_work() const noexcept {
    return waiting_count_.load(std::memory_order_relaxed) != 0 ||
           segment_->attention.load(std::memory_order_relaxed) != 0;
  }
  /// Call it after messages were taken out of a completion channel: events that found it full are
  /// written now.
  void channel_has_room() noexcept {
    if (channel_was_full_.load()) call_own_attention();
    if (segment_->attention.load() != 0) progress();
  }
  /// Places every payload that waits in one of our rings (completer/shared_ring.hpp).
  void settle() noexcept;
  /// Waits for requests of this domain that run now: they may use local memory whose key was
  /// removed after they looked. EBUSY: one takes too long. Takes `lifetime` (shared), but waits
  /// without it, and may try `queue_pair`.
  [[nodiscard]] int wait_for_own_requests(std::uint32_t domain) noexcept;
  /// Like Peer::call_attention(), for one of our own objects: also wakes a sleeping thread.
  void call_own_attention() noexcept;
  /// For any process: calls the owner of an object that has a cry set.
  void call_attention(Peer& owner) noexcept {
    if (owner.is_self())
      call_own_attention();
    else
      owner.call_attention();
  }
  /// The open contexts, for events that concern them all.
  void add_context(Context* context);
  void remove_context(Context* context) noexcept;
  /// For a process that exits: its requests fail from now on, and none of its threads is in a
  /// peer's memory. Peers take it for dead once its files are gone. False: one may still be.
  [[nodiscard]] bool end_requests() noexcept;
  /// Makes sure that the helper thread runs: peers may need it.
  void start_helper() noexcept;
  [[nodiscard]] bool has_helper() noexcept;

  /// How many rings of completion queues were replaced and are not free yet: see
  /// control/late_rings.hpp.
  std::atomic<std::uint32_t> late_rings{0};

  /// Queue pairs that were destroyed while a stopped process was inside, on its way to memory other
  /// than their receives. Their places in the segment stay until it has left: see
  /// control/ghosts.hpp.
  Ranked<LockRank::ghosts, std::mutex> ghosts_mutex;
  QueuePair* ghosts = nullptr;
  std::atomic<std::uint32_t> ghost_count{0};

 private:
  Engine(const Directory& directory, std::unique_ptr<OwnSegment> own);
  [[gnu::cold]] void progress_slowly() noexcept;
  void run_helper() noexcept;
  void retry_waiting() noexcept;
  void admit_waiting() noexcept;
  void answer_attention() noexcept;
  void answer_cries() noexcept;
  void write_unheard_events() noexcept;
  [[nodiscard]] std::uint64_t write_owed_events() noexcept;
  void take_back_receives() noexcept;
  void watch_port() noexcept;
  static void before_fork() noexcept;
  static void after_fork_in_parent() noexcept;
  static void after_fork_in_child() noexcept;
  static const detail::ForkHandlers kForkHandlers;

  Directory directory_;
  std::unique_ptr<OwnSegment> own_;
  Segment* segment_;  // In `own_`.
  std::unique_ptr<MemoryObjects> objects_;
  std::unique_ptr<RegionSpans> spans_;
  Peers peers_;
  std::unique_ptr<Reclaimer> reclaimer_;
  std::uint32_t tag_;
  Ranked<LockRank::helper, std::mutex> helper_mutex_;
  std::unique_ptr<std::thread> helper_;
  std::atomic<bool> stop_{false};
  Ranked<LockRank::contexts, std::mutex> contexts_mutex_;
  std::vector<Context*> contexts_;
  Ranked<LockRank::attention, std::mutex> attention_mutex_;
  std::atomic<bool> channel_was_full_{false};  // Written under that lock.
  Ranked<LockRank::waiting, std::mutex> waiting_mutex_;
  QueuePair* waiting_ = nullptr;                    // A list, linked through the queue pairs.
  std::atomic<QueuePair*> newly_waiting_{nullptr};  // Not yet in it.
  std::atomic<std::uint32_t> waiting_count_{0};
  std::atomic<std::uint64_t> earliest_ns_{~std::uint64_t{0}};
  std::atomic<std::uint64_t> helper_due_ns_{0};  ///< Until when the helper sleeps; 0: it is awake.
  /// When to try again to break queue pairs that a stopped process is inside.
  std::atomic<std::uint64_t> break_at_ns_{~std::uint64_t{0}};
};

[[nodiscard]] std::uint64_t now_ns() noexcept;

}  // namespace verbatim::engine
