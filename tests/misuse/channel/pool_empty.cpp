// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: pool: timed out: buffers that are out 1
// All buffers of a pool are out, and none comes back in time.
#include "misuse/reactor_misuse.hpp"
#include "verbatim/reactor/pool.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(pool_empty) {
  Channels c;
  auto pool = must(Pool::create(c.domain, {.bytes = Channels::kSize, .count = 1}));
  const Buffer only = must(pool.take());
  if (pool.try_take()) give_up({.operation = "a buffer of nowhere"});
  static_cast<void>(must(pool.take(std::chrono::milliseconds{5})));
}

}  // namespace verbatim::test
