// SPDX-License-Identifier: MIT OR Apache-2.0
// What a program does besides each message: it takes and drops a buffer, or finds a registration.
#include <memory>
#include <vector>

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

void cache_find(Fixture& fixture, long operations) {
  // Never destroyed, because the device is gone before.
  static RegionCache& cache = *new RegionCache{fixture.domain};
  static const auto memory = std::make_shared<std::vector<std::byte>>(4096);
  static const auto other = std::make_shared<std::vector<std::byte>>(4096);
  for (long i = 0; i < operations; ++i) {
    const auto found = cache.find(i % 2 == 0 ? memory : other);
    if (!found) report(found);
  }
}

}  // namespace verbatim::overhead
