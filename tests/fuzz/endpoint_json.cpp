// SPDX-License-Identifier: MIT OR Apache-2.0
// Endpoints and regions as JSON, from files that people edit.
#include <string_view>

#include "fuzz/fuzz.hpp"
#include "verbatim/verbs/endpoint.hpp"
#include "verbatim/verbs/remote_memory.hpp"

VERBATIM_FUZZ(bytes) {
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (const auto endpoint = verbatim::endpoint_from_json(text)) {
    const auto written = to_json(*endpoint);
    const auto again = verbatim::endpoint_from_json(written);
    verbatim::fuzz::require(again && to_json(*again) == written);
  }
  if (const auto region = verbatim::remote_memory_from_json(text)) {
    const auto again = verbatim::remote_memory_from_json(to_json(*region));
    verbatim::fuzz::require(again && *again == *region);
  }
}
