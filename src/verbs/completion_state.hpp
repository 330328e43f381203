// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion channels and queues behind their handles: signals, and the ledger of room.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbs/handle.hpp"

namespace verbatim::detail {

/// `timeout` from now. A time beyond the range of the clock never comes.
[[nodiscard]] inline std::chrono::steady_clock::time_point wake_time(
    std::chrono::nanoseconds timeout) noexcept {
  using TimePoint = std::chrono::steady_clock::time_point;
  const TimePoint now = std::chrono::steady_clock::now();
  return timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
}

struct CompletionChannelState {
  Handle<ibv_comp_channel> raw;

  /// Takes and acknowledges all waiting events without blocking, and marks their queues; returns
  /// the count.
  Result<std::size_t> drain();
  /// Sleeps until the channel is readable; false on a time-out.
  [[nodiscard]] Result<bool> sleep(std::chrono::steady_clock::time_point deadline) const;
};

/// Entries of a completion queue that are no longer reserved but may still be in it. Both sums only
/// rise, so that any number of threads may poll while others destroy queue pairs.
class StaleEntries {
 public:
  /// After a queue pair was destroyed.
  void add(std::uint32_t entries) noexcept { left_.fetch_add(entries); }
  [[nodiscard]] std::uint64_t count() const noexcept {
    const std::uint64_t gone = gone_.load();  // First: it never overtakes the other.
    return left_.load() - gone;
  }
  /// Before a look into the queue: what to pass to gone() if the look finds nothing.
  [[nodiscard]] std::uint64_t left() const noexcept { return left_.load(); }
  void gone(std::uint64_t left) noexcept {
    std::uint64_t known = gone_.load();
    while (known < left && !gone_.compare_exchange_weak(known, left)) {
    }
  }

 private:
  std::atomic<std::uint64_t> left_{0};
  std::atomic<std::uint64_t> gone_{0};
};

struct CompletionQueueState {
  CompletionQueueState(std::shared_ptr<CompletionChannelState> on, Handle<ibv_cq> handle,
                       CompletionQueueGrowth growth_policy);
  ~CompletionQueueState();

  /// Room for `entries` more completions, or an error that names the need and the depth.
  [[nodiscard]] Result<void> reserve(std::uint32_t entries);
  /// `used`: completions of the queue pair may still be in the queue.
  void release(std::uint32_t entries, bool used) noexcept;
  /// A shared receive queue fills a completion queue only once, no matter how many queue pairs use
  /// it.
  [[nodiscard]] Result<void> reserve_shared(const void* queue, std::uint32_t entries);
  void release_shared(const void* queue, std::uint32_t entries, bool used) noexcept;

  [[nodiscard]] Result<void> resize(std::uint32_t depth);

  const std::shared_ptr<CompletionChannelState> channel;  // Null: polled only.
  const CompletionQueueGrowth growth;
  std::atomic<bool> signal{false};
  EventMarks marks{0};
  /// Entries that destroyed queue pairs may have left.
  StaleEntries stale;

  mutable std::mutex mutex;  // Guards what follows.
  std::uint32_t depth;
  std::uint32_t reserved = 0;
  std::map<const void*, std::uint32_t> shared_users;

  // Last, so destroyed first: the device waits for acknowledgements that use the rest.
  Handle<ibv_cq> raw;

 private:
  [[nodiscard]] Result<void> reserve_locked(std::uint32_t entries);
  [[nodiscard]] Result<void> grow_locked(std::uint32_t needed);
  [[nodiscard]] Result<void> resize_locked(std::uint32_t wanted);
};

}  // namespace verbatim::detail
