// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which attributes a change of a queue pair's state must and may set.
///
/// One table serves both sides of the verbs: the library consults it before it calls a device, and
/// the software device consults it as a device would.
#include <infiniband/verbs.h>

namespace verbatim::detail {

/// Masks of `ibv_qp_attr_mask`.
struct TransitionAttributes {
  unsigned required = 0;  ///< In addition to IBV_QP_STATE.
  unsigned optional = 0;
};

/// nullptr: there is no such transition.
[[nodiscard]] const TransitionAttributes* transition_attributes(ibv_qp_type type, ibv_qp_state from,
                                                                ibv_qp_state to) noexcept;

}  // namespace verbatim::detail
