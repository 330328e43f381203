// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How much goes through: `depth` requests are outstanding in each queue pair all the time.
///
/// A sender of messages may not outrun the receives: the receiver writes into the sender's memory
/// how many it has had.
#include <cstdint>
#include <vector>

#include "measure/latency.hpp"
#include "measure/side.hpp"

namespace verbatim::cli {

struct Volume {
  std::uint64_t messages = 0;
  double seconds = 0;
  /// Picoseconds for a message, in short slices of the time: each message counts once. Its median
  /// is the rate while both ends ran, even if other programs often took a processor from one of
  /// them.
  Histogram pace{};
};

/// The client's part. Gives the messages of each queue pair, warm-up included.
[[nodiscard]] std::vector<std::uint64_t> measure_stream(Side& side, const Effort& effort,
                                                        const Observer& observer, Volume& volume);
/// The server's part: takes messages until the client has said how many there are. Gives what it
/// said.
[[nodiscard]] std::vector<std::uint64_t> take_stream(Side& side, std::chrono::nanoseconds limit);
/// Both, when it is over.
void verify_stream(Side& side, const std::vector<std::uint64_t>& messages);

/// {"done": [n, ...]}: of each queue pair. Throws Failure for anything else.
[[nodiscard]] std::vector<std::uint64_t> counts_from(const nlohmann::json& record,
                                                     std::uint32_t queue_pairs);

}  // namespace verbatim::cli
