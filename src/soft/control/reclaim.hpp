// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Releasing what we hold of dead peers, and of memory that living peers freed.
///
/// Owns retired windows: nobody can find them any more, but a thread of ours may still be copying
/// in one. Such a thread holds the lock of one of our queue pairs. A queue pair forgets what it
/// learned about a window when `own_changes` has been incremented. So a window can be unmapped
/// once, after that, the lock of each queue pair was seen free. An owner that lies about what it
/// freed can only make us map again.
///
/// Threads: the helper, and every thread that creates or destroys objects, while it holds no lock.
/// Locks: `mutex_`, tried and never waited for; inside it `lifetime` and `queue_pair`, only tried,
/// then `peers` and `peer`. Not hot.
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

  /// Looks, if it is time to. Returns when to look again (steady clock).
  std::uint64_t run_if_due(Engine& engine) noexcept;

 private:
  void begin(Engine& engine) noexcept;
  [[nodiscard]] bool is_over(Engine& engine) noexcept;
  void unmap_all() noexcept;

  std::mutex mutex_;
  std::atomic<std::uint64_t> due_ns_{0};
  Window* retired_ = nullptr;       // Waiting for
  std::bitset<kQueuePairs> users_;  // queue pairs whose lock was not seen free yet.
};

}  // namespace verbatim::engine
