// SPDX-License-Identifier: MIT OR Apache-2.0
// A token circulates: each rank adds its number and passes it on.
//
//   verbatim run -n 4 -- ./ring
#include "rank_main.hpp"

namespace vb = verbatim;

int main() {
  return as_rank([](vb::Node& node, const vb::ProtectionDomain& domain) -> vb::Result<void> {
    constexpr int kRounds = 100;
    const vb::Rank next = (node.rank() + 1) % node.world();
    const vb::Rank before = (node.rank() + node.world() - 1) % node.world();
    auto token = VERBATIM_TRY(domain.allocate<std::uint64_t>(1));
    token.as<std::uint64_t>()[0] = 0;
    for (int round = 0; round < kRounds && node.world() > 1; ++round) {
      if (node.rank() != 0) VERBATIM_TRY(node[before].receive(token.scatter()));
      token.as<std::uint64_t>()[0] += node.rank();
      VERBATIM_TRY(node[next].send(token.gather()));
      if (node.rank() == 0) VERBATIM_TRY(node[before].receive(token.scatter()));
    }
    const std::uint64_t sum = token.as<std::uint64_t>()[0];
    if (node.rank() != 0) return {};
    std::printf("sum of the ranks: %llu\n", static_cast<unsigned long long>(sum / kRounds));
    const bool is_right = sum == std::uint64_t{node.world()} * (node.world() - 1) / 2 * kRounds;
    if (!is_right) return std::unexpected(vb::Error{.code = vb::Errc::malformed, .value = sum});
    return {};
  });
}
