// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Channel: the buffer was moved away before ... <post>
// All buffers of a pool are out, and what try_take() gives is not asked whether it is one.
#include "misuse/reactor_misuse.hpp"
#include "verbatim/reactor/pool.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(pool_empty_used) {
  Channels c;
  auto pool = must(Pool::create(c.domain, {.bytes = Channels::kSize, .count = 1}));
  const Buffer only = must(pool.take());
  must(c.left.send(pool.try_take()).wait().result);  // <post>
}

}  // namespace verbatim::test
