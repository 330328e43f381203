// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the handle of a shared receive queue owns.
#include "verbs/domain_state.hpp"

namespace verbatim::detail {

struct SharedReceiveQueueState {
  SharedReceiveQueueState(DomainPtr owner, Handle<ibv_srq> handle, const ibv_srq_attr& made);
  ~SharedReceiveQueueState();

  DomainPtr domain;
  std::uint32_t max_requests;
  std::uint32_t max_elements;
  EventMarks marks{0};
  Handle<ibv_srq> raw;
};

}  // namespace verbatim::detail
