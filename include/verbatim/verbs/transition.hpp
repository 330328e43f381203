// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The states of a queue pair, and which attributes a change of state must and may set.
///
/// The device answers a wrong set of attributes with a bare EINVAL. This table, consulted first,
/// gives an error that names the attribute.
#include <cstdint>

#include "verbatim/base/error.hpp"
#include "verbatim/verbs/endpoint.hpp"

namespace verbatim {

/// The values are the verbs' own.
enum class QueuePairState : std::uint8_t {
  reset = 0,
  initialized = 1,
  ready_to_receive = 2,
  ready_to_send = 3,
  send_queue_drained = 4,
  send_queue_error = 5,
  error = 6,
};
[[nodiscard]] const char* to_string(QueuePairState state) noexcept;

struct Transition {
  QueuePairType type;
  QueuePairState from;
  QueuePairState to;
};

/// `attributes` is an `ibv_qp_attr_mask`. A missing or forbidden attribute is `invalid_argument`
/// with the attribute's name in `field`. If the transition does not exist, the error names both
/// states.
[[nodiscard]] Result<void> check_transition(Transition transition, unsigned attributes) noexcept;

}  // namespace verbatim
