// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a work request ended, as the device reports it, and what kind of mistake that is.
#include "verbatim/base/language.hpp"

#include <cstdint>
#include <string_view>

namespace verbatim {

/// The values are the verbs' own (`ibv_wc_status`).
enum class WorkStatus : std::uint8_t {
  success = 0,
  local_length = 1,
  local_queue_pair_operation = 2,
  local_eec_operation = 3,
  local_protection = 4,
  flushed = 5,
  memory_window_bind = 6,
  bad_response = 7,
  local_access = 8,
  remote_invalid_request = 9,
  remote_access = 10,
  remote_operation = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  local_rdd_violation = 14,
  remote_invalid_rd_request = 15,  ///< For reliable *datagrams*; unrelated to RDMA reads.
  remote_aborted = 16,
  invalid_eec_number = 17,
  invalid_eec_state = 18,
  fatal = 19,
  response_timeout = 20,
  general = 21,
  tag_matching = 22,
  tag_matching_incomplete = 23,
};
[[nodiscard]] std::string_view to_string(WorkStatus status) noexcept;

enum class WorkErrorClass : std::uint8_t {
  local_programming,  ///< This side asked for something wrong.
  local_resource,     ///< This side's queue pair or window is gone.
  remote,             ///< The peer refused.
  transport,          ///< The peer did not answer, or had no receive posted.
  timeout,
  fatal,
  unknown,
};
[[nodiscard]] std::string_view to_string(WorkErrorClass error_class) noexcept;
[[nodiscard]] WorkErrorClass class_of(WorkStatus status) noexcept;
/// What to do first; "" if there is no hint. error_guide.hpp has all that is known.
[[nodiscard]] std::string_view hint_of(WorkStatus status) noexcept;

}  // namespace verbatim
