// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Giving back what we hold of peers that died, and of memory that living peers freed.
///
/// Owns windows that were retired: nobody finds them any more, but a thread of ours may still be
/// copying in one. Such a thread holds the lock of one of our queue pairs, and what a queue pair
/// learnt of a window it forgets when `own_changes` has counted. So a window is unmapped when,
/// after that, each queue pair's lock was seen free once. An owner that lies about what it freed
/// can make us map again, and no more.
///
/// Threads: the helper, and every thread that makes or destroys objects, from where it holds no
/// lock. Locks: `mutex_`, tried and never waited for; inside it `lifetime` and `queue_pair`, tried
/// only, then `peers` and `peer`. Not hot.
#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>

#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

class Engine;

class Reclaimer {
 public:
  Reclaimer() noexcept = default;
  ~Reclaimer() { unmap_all(); }
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  /// Looks, if it is time to. When to look again (steady clock).
  std::uint64_t run_if_due(Engine& engine) noexcept;

 private:
  void begin(Engine& engine) noexcept;
  [[nodiscard]] bool is_over(Engine& engine) noexcept;
  void unmap_all() noexcept;

  std::mutex mutex_;
  std::atomic<std::uint64_t> due_ns_{0};
  Window* retired_ = nullptr;       // Being waited for;
  std::bitset<kQueuePairs> users_;  // by queue pairs whose lock was not seen free yet.
};

}  // namespace verbatim::engine
