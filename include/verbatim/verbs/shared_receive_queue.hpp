// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One receive queue for many queue pairs.
///
/// Its requests belong to the queue, not to a queue pair: breaking one queue pair does not return
/// them. Arm the limit to get an event (`EventType::shared_receive_queue_limit_reached`) when the
/// queue runs low.
///
/// Ownership: a cheap, shared handle. Keeps its domain alive; queue pairs keep it alive.
/// Threads:   post from one thread at a time.
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "verbatim/base/error.hpp"
#include "verbatim/base/required.hpp"
#include "verbatim/verbs/events.hpp"

namespace verbatim {

namespace detail {
struct Raw;
struct SharedReceiveQueueState;
struct QueuePairObject;
}  // namespace detail

struct SharedReceiveQueueOptions {
  Required<std::uint32_t> max_requests;
  std::uint32_t max_elements = 4;  ///< Per request.
};

class SharedReceiveQueue {
 public:
  [[nodiscard]] std::uint32_t max_requests() const noexcept;  ///< As the device granted it.
  [[nodiscard]] std::uint32_t max_elements() const noexcept { return max_elements_; }
  /// Raises one event when fewer than `requests` are left. Arm it again after that.
  [[nodiscard]] Result<void> arm_limit(std::uint32_t requests) const;
  /// The armed limit; 0: not armed.
  [[nodiscard]] Result<std::uint32_t> limit() const;
  [[nodiscard]] EventFlags events() const noexcept;

 private:
  friend class ProtectionDomain;
  friend class QueuePair;
  friend struct detail::QueuePairObject;
  friend struct detail::Raw;
  explicit SharedReceiveQueue(std::shared_ptr<detail::SharedReceiveQueueState> state) noexcept;

  ibv_srq* raw_;
  std::uint32_t max_elements_;
  std::shared_ptr<detail::SharedReceiveQueueState> state_;
};

}  // namespace verbatim
