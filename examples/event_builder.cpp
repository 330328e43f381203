// SPDX-License-Identifier: MIT OR Apache-2.0
// Data acquisition: every rank reads out a part of the detector, and every rank assembles events.
// Rank e % world builds event e: all ranks write their fragment of it there, and announce it with
// the immediate. A builder has room for one event in progress; the barrier is the credit for the
// next one.
//
//   verbatim run -n 4 -- ./event_builder
#include <array>
#include <vector>

#include "rank_main.hpp"

namespace vb = verbatim;

namespace {

constexpr std::uint32_t kEvents = 200;

struct Fragment {
  std::uint32_t event;
  std::uint32_t source;
  std::array<std::uint32_t, 254> samples;
};

void read_out(Fragment& fragment, std::uint32_t event, vb::Rank source) {
  fragment.event = event;
  fragment.source = source;
  for (std::uint32_t i = 0; i < fragment.samples.size(); ++i)
    fragment.samples[i] = event * 31 + source * 7 + i;
}

bool is_whole(const Fragment& fragment, std::uint32_t event, vb::Rank source) {
  Fragment expected{};
  read_out(expected, event, source);
  return fragment.event == event && fragment.source == source &&
         fragment.samples == expected.samples;
}

}  // namespace

int main() {
  return as_rank([](vb::Node& node, const vb::ProtectionDomain& domain) -> vb::Result<void> {
    const vb::Rank world = node.world();
    auto building =
        VERBATIM_TRY(domain.allocate_shared(sizeof(Fragment) * world, vb::Access::remote_write));
    const auto builders = VERBATIM_TRY(node.exchange(building.remote()));
    auto fragments = VERBATIM_TRY(domain.allocate<Fragment>(world));  // one per builder
    std::uint32_t built = 0;

    // [event]
    for (std::uint32_t first = 0; first < kEvents; first += world) {  // a round: one event per rank
      std::vector<vb::PeerWork<vb::Write<1>>> writes;
      for (vb::Rank builder = 0; builder < world; ++builder) {
        const std::uint32_t event = first + builder;
        Fragment& fragment = fragments.as<Fragment>()[builder];
        read_out(fragment, event, node.rank());
        const std::size_t at = sizeof(Fragment) * node.rank();
        if (builder == node.rank())
          std::memcpy(building.quiescent_bytes().data() + at, &fragment, sizeof fragment);
        else
          writes.push_back({builder,
                            {fragments.gather(sizeof(Fragment) * builder, sizeof(Fragment)),
                             *builders[builder].sub_region(at, sizeof(Fragment))}});
      }
      VERBATIM_TRY(node.peers().scatter(writes));
      VERBATIM_TRY(node.barrier());  // all fragments of the round have arrived
      const auto* const event =
          reinterpret_cast<const Fragment*>(building.quiescent_bytes().data());
      for (vb::Rank source = 0; source < world; ++source)
        if (!is_whole(event[source], first + node.rank(), source))
          return std::unexpected(
              vb::Error{.code = vb::Errc::malformed, .field = "fragment", .value = source});
      ++built;
      VERBATIM_TRY(node.barrier());  // all have read: the places are free
    }
    // [/event]
    const auto counts = VERBATIM_TRY(node.exchange(built));
    std::uint32_t total = 0;
    for (const std::uint32_t each : counts) total += each;
    if (node.rank() == 0) std::printf("built %u events of %u fragments\n", total, world);
    return {};
  });
}
