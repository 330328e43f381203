// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How long one message takes.
///
/// Of a write and a send it is half of a round trip: each end answers with a message of the same
/// size. Of a read and an atomic it is the whole operation, in which the peer's program has no
/// part. The first exchanges warm up caches and are not counted. The client reads the clock once
/// for each exchange.
#include <chrono>
#include <cstdint>
#include <functional>

#include "measure/histogram.hpp"
#include "measure/side.hpp"

namespace verbatim::cli {

/// How long, or how many.
struct Effort {
  double seconds = 0.3;
  std::uint64_t count = 0;  ///< 0: the time counts.
};

/// Shows progress: called between two exchanges, whose times do not include it.
struct Observer {
  std::chrono::nanoseconds every = std::chrono::milliseconds{100};
  std::function<void(double part_done, std::uint64_t last_nanoseconds)> look{};
};

/// Whether the times are round trips, of which one message is half.
[[nodiscard]] constexpr bool is_round_trip(Verb verb) noexcept {
  return verb == Verb::send || verb == Verb::write;
}

/// The client's part. Gives the number of exchanges of each queue pair, warm-up included.
[[nodiscard]] std::vector<std::uint64_t> measure_latency(Side& side, const Effort& effort,
                                                         const Observer& observer,
                                                         Histogram& times);
/// The server's part, until the client says something.
void answer_latency(Side& side);
/// Both, when it is over: is what came what the peer has sent?
void verify_latency(Side& side, const std::vector<std::uint64_t>& exchanges);

}  // namespace verbatim::cli
