// SPDX-License-Identifier: MIT OR Apache-2.0
// Each rank writes a block to every other, all at once. A barrier shows when everything has
// arrived.
//
//   verbatim run -n 4 -- ./all_to_all
#include <algorithm>
#include <vector>

#include "rank_main.hpp"

namespace vb = verbatim;

int main() {
  return as_rank([](vb::Node& node, const vb::ProtectionDomain& domain) -> vb::Result<void> {
    constexpr std::size_t kBlock = 64 * 1024;
    // [exchange]
    auto board =
        VERBATIM_TRY(domain.allocate_shared(kBlock * node.world(), vb::Access::remote_write));
    const auto boards = VERBATIM_TRY(node.exchange(board.remote()));  // of all ranks, by rank
    // [/exchange]
    auto own = VERBATIM_TRY(domain.allocate(kBlock));
    std::ranges::fill(own.bytes(), static_cast<std::byte>(node.rank() + 1));

    // [scatter]
    std::vector<vb::PeerWork<vb::Write<1>>> writes;
    for (vb::Rank rank = 0; rank < node.world(); ++rank)
      if (rank != node.rank())
        writes.push_back(
            {rank, {own.gather(), *boards[rank].sub_region(kBlock * node.rank(), kBlock)}});
    VERBATIM_TRY(node.peers().scatter(writes));  // posts to all before it waits
    VERBATIM_TRY(node.barrier());                // all have written
    // [/scatter]

    const auto bytes = board.quiescent_bytes();
    for (vb::Rank rank = 0; rank < node.world(); ++rank)
      for (std::size_t i = 0; rank != node.rank() && i < kBlock; ++i)
        if (bytes[kBlock * rank + i] != static_cast<std::byte>(rank + 1))
          return std::unexpected(
              vb::Error{.code = vb::Errc::malformed, .field = "block of rank", .value = rank});
    if (node.rank() == 0)
      std::printf("%u blocks of %zu bytes arrived at each rank\n", node.world() - 1, kBlock);
    return {};
  });
}
