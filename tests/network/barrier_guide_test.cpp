// SPDX-License-Identifier: MIT OR Apache-2.0
// The code of manual/guide/barriers.md.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "network/barrier_world.hpp"
#include "support/require.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

// [phases]
/// Each rank writes its part into the memory of its neighbour; then all read what they received.
Result<std::uint64_t> exchange_parts(Channel& to_neighbour, Barrier& everyone,
                                     const SharedRegion& mine, const Buffer& part,
                                     RemoteMemoryRegion theirs) {
  VERBATIM_TRY(to_neighbour.write(part.gather(), theirs));
  VERBATIM_TRY(everyone());
  return mine.load_acquire<std::uint64_t>(0);
}
// [/phases]

// [overlap]
/// Arrives, does work that does not need the others, and only then waits for them.
template <class Work>
Result<void> meet_behind(Barrier& everyone, Work&& work) {
  VERBATIM_TRY(everyone.arrive({.fence = true}));
  while (!everyone.ready())
    if (!work()) break;  // Nothing more to do.
  VERBATIM_TRY(everyone.wait(30s));
  return {};
}
// [/overlap]

// [patience]
/// Logs the missing ranks at each time-out and waits again: a time-out loses nothing.
Result<void> meet_patiently(Barrier& everyone, std::string& log) {
  auto met = everyone(100ms);
  for (int tries = 0; tries < 50 && met == Errc::timed_out; ++tries) {
    log += to_string(met.error()) + '\n';
    met = everyone.wait(100ms);
  }
  VERBATIM_TRY(met);
  return {};
}
// [/patience]

TEST(BarrierGuide, ExchangesParts) {
  World world{3};
  std::vector<SharedRegion> memory;
  for (Rank rank = 0; rank < 3; ++rank)
    memory.push_back(require(world[rank].domain.allocate_shared(8, Access::remote_write)));
  world.run([&](WorldRank& self) {
    const Rank to = (self.rank + 1) % 3;
    Buffer part = require(self.domain.allocate(8));
    part.as<std::uint64_t>()[0] = self.rank + 100;
    Barrier barrier = self.barrier(everyone(3));
    const auto got =
        exchange_parts(self.channel(to), barrier, memory[self.rank], part, memory[to].remote());
    ASSERT_TRUE(succeeds(got));
    EXPECT_EQ(*got, (self.rank + 2) % 3 + 100);
  });
}

TEST(BarrierGuide, WorksBehindTheBarrier) {
  World world{3};
  std::atomic<int> done{0};
  world.run([&](WorldRank& self) {
    Barrier barrier = self.barrier(everyone(3));
    int left = 5;
    EXPECT_TRUE(succeeds(meet_behind(barrier, [&] { return ++done, --left > 0; })));
  });
  EXPECT_GE(done, 1);
}

TEST(BarrierGuide, NamesWhoIsLate) {
  World world{2, {.session = true}};
  std::string log;
  world.run([&](WorldRank& self) {
    Barrier barrier = self.barrier(everyone(2));
    if (self.rank == 0) {
      EXPECT_TRUE(succeeds(meet_patiently(barrier, log)));
      return;
    }
    // The other one asks about this one when it has timed out.
    while (world[0].session->questions == 0) std::this_thread::yield();
    EXPECT_TRUE(barrier(kLong).has_value());
  });
  EXPECT_NE(log.find("rank 1 waits at no barrier"), std::string::npos) << log;
}

}  // namespace
}  // namespace verbatim::test
