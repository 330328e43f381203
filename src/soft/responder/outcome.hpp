// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a request ended, or why it did not end yet.
///
/// A value of the thread that runs the request; owns nothing, takes no lock. Hot.
#include <infiniband/verbs.h>

#include <cstdint>

namespace verbatim::engine {

enum class Verdict : std::uint8_t {
  done,        ///< Finished, with a status.
  no_receive,  ///< The peer has no receive posted.
  not_ready,   ///< The peer's queue pair does not exist, is not ready yet, or is broken.
};

struct Outcome {
  Verdict verdict;
  ibv_wc_status status;  ///< When done.
  std::uint32_t byte_count;
  std::uint32_t rnr_timer;  ///< The peer's, when it has no receive.
};

constexpr Outcome done(ibv_wc_status status, std::uint32_t bytes = 0) noexcept {
  return {Verdict::done, status, bytes, 0};
}
constexpr Outcome not_ready() noexcept { return {Verdict::not_ready, IBV_WC_GENERAL_ERR, 0, 0}; }
[[nodiscard]] constexpr bool succeeded(const Outcome& outcome) noexcept {
  return outcome.verdict == Verdict::done && outcome.status == IBV_WC_SUCCESS;
}

}  // namespace verbatim::engine
