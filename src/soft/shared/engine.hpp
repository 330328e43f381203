// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One engine per process: its segment, its peers, its objects by index, its helper thread.
///
/// Requests run in the thread that posts them. The helper thread exists for what cannot finish
/// there: a peer without a receive or not ready yet, a peer's cry for attention, relayed copies.
/// It starts when first needed and sleeps otherwise.
#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "soft/shared/directory.hpp"
#include "soft/shared/objects.hpp"
#include "soft/shared/peer.hpp"
#include "soft/shared/segment.hpp"

namespace verbatim::engine {

/// Hands out indices round robin, so that a number is not reused soon.
template <class Object, std::uint32_t Count>
class IndexTable {
 public:
  /// The index, or Count when all are taken. Nobody sees the object before show(): the helper
  /// thread goes through the tables at any time.
  [[nodiscard]] std::uint32_t reserve(std::uint32_t start) noexcept {
    const std::lock_guard lock{mutex_};
    if (next_ == 0) next_ = start;
    for (std::uint32_t tried = 0; tried < Count; ++tried) {
      const std::uint32_t index = next_++ % Count;
      if (index < kReserved || taken_[index]) continue;
      taken_[index] = true;
      return index;
    }
    return Count;
  }
  void show(std::uint32_t index, Object* object) noexcept {
    objects_[index].store(object, std::memory_order_release);
  }
  void remove(std::uint32_t index) noexcept {
    const std::lock_guard lock{mutex_};
    objects_[index].store(nullptr);
    taken_[index] = false;
  }
  [[nodiscard]] Object* at(std::uint32_t index) const noexcept {
    return index < Count ? objects_[index].load(std::memory_order_acquire) : nullptr;
  }

 private:
  static constexpr std::uint32_t kReserved = 2;  // Queue pairs 0 and 1 are special on real ports.
  std::mutex mutex_;
  std::uint32_t next_ = 0;
  std::bitset<Count> taken_;
  std::array<std::atomic<Object*>, Count> objects_{};
};

class Engine {
 public:
  /// The process's engine; made by the first caller, gone with the last.
  [[nodiscard]] static Result<std::shared_ptr<Engine>> get();
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] Segment& segment() noexcept { return *segment_; }
  [[nodiscard]] OwnSegment& own() noexcept { return *own_; }
  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }
  [[nodiscard]] const Directory& directory() const noexcept { return directory_; }

  IndexTable<QueuePair, kQueuePairs> queue_pairs;
  IndexTable<CompletionQueue, kCompletionQueues> completion_queues;
  IndexTable<SharedReceiveQueue, kSharedQueues> shared_queues;
  IndexTable<Region, kRegions> regions;
  std::atomic<std::uint32_t> next_domain{1};
  std::atomic<std::uint32_t> next_channel{1};
  std::array<std::atomic<std::uint32_t>, 1024> region_tags{};
  /// Shared while objects are looked up and used from outside their owner's calls; exclusive while
  /// one is removed and freed.
  std::shared_mutex lifetime;

  /// The queue pair has a request that waits; `due_ns` (steady clock) is when to look again.
  void wait_for(QueuePair& queue_pair, std::uint64_t due_ns) noexcept;
  /// No thread touches the queue pair's waiting requests any more.
  void forget(QueuePair& queue_pair) noexcept;
  /// Looks after waiting requests and peers' cries for attention, if there are any. Called from
  /// every poll: a polling program never depends on the helper.
  void progress() noexcept {
    if (has_work()) [[unlikely]]
      progress_slowly();
  }
  [[nodiscard]] bool has_work() const noexcept {
    return waiting_count_.load(std::memory_order_relaxed) != 0 ||
           segment_->attention.load(std::memory_order_relaxed) != 0;
  }
  /// The open contexts, for events that concern them all.
  void add_context(Context* context);
  void remove_context(Context* context) noexcept;
  /// Makes sure that the helper thread runs: peers may need it.
  void start_helper() noexcept;
  [[nodiscard]] bool has_helper() noexcept;

 private:
  Engine(const Directory& directory, std::unique_ptr<OwnSegment> own);
  [[gnu::cold]] void progress_slowly() noexcept;
  void run_helper() noexcept;
  void answer_attention() noexcept;
  void watch_port() noexcept;
  static void after_fork_in_child() noexcept;

  Directory directory_;
  std::unique_ptr<OwnSegment> own_;
  Segment* segment_;  // In `own_`.
  Peers peers_;
  std::uint32_t tag_;
  std::mutex helper_mutex_;
  std::unique_ptr<std::thread> helper_;
  std::atomic<bool> stop_{false};
  std::mutex contexts_mutex_;
  std::vector<Context*> contexts_;
  std::mutex attention_mutex_;
  std::mutex waiting_mutex_;
  std::vector<QueuePair*> waiting_;
  std::atomic<std::uint32_t> waiting_count_{0};
  std::atomic<std::uint64_t> earliest_ns_{~std::uint64_t{0}};
};

[[nodiscard]] std::uint64_t now_ns() noexcept;

}  // namespace verbatim::engine
