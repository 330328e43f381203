// SPDX-License-Identifier: MIT OR Apache-2.0
// Barriers: all ranks 10,000 times, with one rank late at random; then every second rank.
//
//   verbatim run -n 4 -- ./network_barrier
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "rank_main.hpp"

namespace vb = verbatim;
using namespace std::chrono_literals;

int main() {
  return as_rank([](vb::Node& node, const vb::ProtectionDomain&) -> vb::Result<void> {
    // [barriers]
    std::mt19937 random{node.rank()};
    for (int round = 0; round < 10'000; ++round) {
      if (node.rank() == 1 && round % 1000 == 0)  // the others wait for it
        std::this_thread::sleep_for(random() % 10'000 * 1us);
      VERBATIM_TRY(node.barrier());
    }

    std::vector<vb::Rank> even;
    for (vb::Rank rank = 0; rank < node.world(); rank += 2) even.push_back(rank);
    if (node.rank() % 2 == 0) {
      auto evens = VERBATIM_TRY(node.make_barrier(even, vb::BarrierAlgorithm::binary_tree));
      VERBATIM_TRY(evens.arrive());  // do something else meanwhile
      VERBATIM_TRY(evens.wait(5s));
    }
    // [/barriers]
    VERBATIM_TRY(node.barrier());
    if (node.rank() == 0) std::printf("%u ranks met 10001 times\n", node.world());
    return {};
  });
}
