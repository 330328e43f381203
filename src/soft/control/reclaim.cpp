// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/reclaim.hpp"

#include <shared_mutex>
#include <utility>

#include "soft/requester/queue_pair.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint64_t kIntervalNs = 500'000'000;
constexpr std::uint64_t kSoonNs = 5'000'000;

}  // namespace

void Reclaimer::unmap_all() noexcept { unmap(std::exchange(retired_, nullptr)); }

/// Collects the windows that nobody can find any more, and notes which queue pairs may still use
/// them.
void Reclaimer::begin(Engine& engine) noexcept {
  retired_ = engine.peers().retire();
  if (retired_ == nullptr) return;
  own_changes.fetch_add(1);
  for (std::uint32_t index = 0; index < kQueuePairs; ++index)
    users_[index] = engine.receive_sides.at(index) != nullptr;
}

bool Reclaimer::is_over(Engine& engine) noexcept {
  const std::shared_lock alive{engine.lifetime, std::try_to_lock};
  if (!alive) return false;
  for (std::uint32_t index = 0; users_.any() && index < kQueuePairs; ++index) {
    if (!users_[index]) continue;
    if (const ReceiveSide* const side = engine.receive_sides.at(index)) {
      QueuePair& queue_pair = QueuePair::of(*side);
      if (!queue_pair.lock.try_lock()) continue;
      queue_pair.lock.unlock();
    }
    users_.reset(index);
  }
  return users_.none();
}

std::uint64_t Reclaimer::run_if_due(Engine& engine) noexcept {
  const std::uint64_t now = now_ns();
  const std::uint64_t due = due_ns_.load(std::memory_order_relaxed);
  if (now < due && !engine.peers().has_retired()) return due;
  const std::unique_lock lock{mutex_, std::try_to_lock};
  if (!lock) return now + kSoonNs;
  if (retired_ == nullptr) begin(engine);
  if (retired_ != nullptr && is_over(engine)) unmap_all();
  const std::uint64_t next = now + (retired_ != nullptr ? kSoonNs : kIntervalNs);
  due_ns_.store(next, std::memory_order_relaxed);
  return next;
}

std::uint64_t Engine::reclaim() noexcept { return reclaimer_->run_if_due(*this); }

}  // namespace verbatim::engine
