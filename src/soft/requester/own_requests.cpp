// SPDX-License-Identifier: MIT OR Apache-2.0
// Our own requests that run while memory is taken away from them. A request looks at the key of its
// local memory, and then copies, all under the lock of its queue pair. So it has ended when that
// lock was free once after the key was removed.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "soft/requester/queue_pair.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/long_wait.hpp"

namespace verbatim::engine {
namespace {

/// Even a gigabyte that its owner copies piece by piece takes less, unless the owner is slow on
/// purpose.
constexpr auto kPatience = std::chrono::seconds{30};
/// After this, look more closely.
constexpr auto kGlances = std::chrono::milliseconds{1};

/// Whether a thread is inside. A thread that posts all the time may be inside at every look. So
/// after a while this takes the lock, although its owner then loses it for ever: see BiasedLock.
bool is_inside(QueuePair& queue_pair, bool closely) noexcept {
  if (!queue_pair.lock.is_held()) return false;
  if (!closely || !queue_pair.lock.try_lock()) return true;
  queue_pair.lock.unlock();
  return false;
}

}  // namespace

int Engine::wait_for_own_requests(std::uint32_t domain) noexcept {
  const auto end = LongWait::Clock::now() + kPatience;
  BiasedLock::order_threads();
  std::shared_lock alive{lifetime};
  for (std::uint32_t index = 0; index < receive_sides.end(); ++index) {
    for (LongWait wait;;) {
      const ReceiveSide* const side = receive_sides.at(index);
      if (side == nullptr || QueuePair::of(*side).domain != domain ||
          !is_inside(QueuePair::of(*side), wait.waited() > kGlances))
        break;
      // Nobody may have to wait for the request because of us.
      alive.unlock();
      if (wait.pause() && LongWait::Clock::now() > end) return EBUSY;
      alive.lock();
    }
  }
  return 0;
}

}  // namespace verbatim::engine
