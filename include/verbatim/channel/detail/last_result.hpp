// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the slow half of a wait leaves for the fast half.
#include <cstdint>

#include "verbatim/base/error.hpp"
#include "verbatim/verbs/completion.hpp"

namespace verbatim::detail {

/// Whether the operation's memory belongs to the caller. If the device cannot be stopped, the
/// library cannot keep such memory from being reused.
enum class Memory : std::uint8_t { owned, borrowed };

/// Not in the channel, because taking the last parked result frees the channel. Returning a Result
/// from the slow half instead would cost owned operations 27 / 13 instructions on the fast path,
/// blocking ones 1 / 7.
struct LastResult {
  Completion completion;
  Error error;
  bool unproven = false;  ///< The device could not be stopped: it may still use the memory.
};
inline constinit thread_local LastResult last_result{};

}  // namespace verbatim::detail
