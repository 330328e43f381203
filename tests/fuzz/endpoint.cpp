// SPDX-License-Identifier: MIT OR Apache-2.0
// Endpoints and regions as peers send them in records: decoded and encoded again, they stay so.
#include "verbatim/verbs/endpoint.hpp"

#include <algorithm>

#include "fuzz/fuzz.hpp"
#include "verbatim/verbs/remote_memory.hpp"

VERBATIM_FUZZ(bytes) {
  if (const auto endpoint = verbatim::decode_endpoint(bytes)) {
    const auto encoded = encode(*endpoint);
    const auto again = verbatim::decode_endpoint(encoded);
    verbatim::fuzz::require(again && encode(*again) == encoded);
  }
  if (const auto region = verbatim::decode_remote_memory(bytes))
    verbatim::fuzz::require(std::ranges::equal(encode(*region), bytes));
}
