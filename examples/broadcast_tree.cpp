// SPDX-License-Identifier: MIT OR Apache-2.0
// Rank 0 has a megabyte for all ranks; each rank passes it on to two others.
//
//   verbatim run -n 8 -- ./broadcast_tree
#include <algorithm>
#include <vector>

#include "rank_main.hpp"

namespace vb = verbatim;

int main() {
  return as_rank([](vb::Node& node, const vb::ProtectionDomain& domain) -> vb::Result<void> {
    constexpr std::size_t kBytes = 1 << 20;
    auto data = VERBATIM_TRY(domain.allocate(kBytes));
    // [tree]
    if (node.rank() == 0)
      std::ranges::fill(data.bytes(), std::byte{42});
    else
      VERBATIM_TRY(node[(node.rank() - 1) / 2].receive(data.scatter()));

    std::vector<vb::Rank> children;
    for (const vb::Rank child : {2 * node.rank() + 1, 2 * node.rank() + 2})
      if (child < node.world()) children.push_back(child);
    VERBATIM_TRY(node.peers().multicast(children, vb::Send{data.gather()}));
    // [/tree]
    if (std::ranges::count(data.bytes(), std::byte{42}) != kBytes)
      return std::unexpected(vb::Error{.code = vb::Errc::malformed, .field = "data"});
    VERBATIM_TRY(node.barrier());
    if (node.rank() == 0) std::printf("%u ranks have %zu bytes\n", node.world(), kBytes);
    return {};
  });
}
