// SPDX-License-Identifier: MIT OR Apache-2.0
// A buffer taken and dropped: what stands beside each message of a program with a pool.
#include "fixture.hpp"

namespace verbatim::overhead {
namespace {

Pools make_pools(const Fixture& fixture) {
  auto pools = Pools::create(
      fixture.domain,
      {{.bytes = 256, .count = 16}, {.bytes = 4096, .count = 16}, {.bytes = 65536, .count = 16}});
  if (!pools) report(pools);
  return *std::move(pools);
}

}  // namespace

void pool_take(Fixture& fixture, long operations) {
  static Pools pools = make_pools(fixture);
  for (long i = 0; i < operations; ++i) {
    const Buffer buffer = pools.try_take(fixture.message.size());
    if (!buffer) report(Error{.code = Errc::would_block});
  }
}

}  // namespace verbatim::overhead
