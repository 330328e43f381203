// SPDX-License-Identifier: MIT OR Apache-2.0
// Many peers on one completion queue.
#include <vector>

#include "fixture.hpp"
#include "verbatim/multi/multi_channel.hpp"

namespace verbatim::overhead {
namespace {

constexpr int kPeers = 7;

struct World {
  Reactor reactor;
  MultiChannel multi;
  std::vector<PeerIndex> peers;
};

World make_world(const Fixture& fixture) {
  Reactor reactor = make_reactor(fixture);
  MultiChannel multi{reactor, fixture.domain};
  for (int i = 0; i < kPeers; ++i) {
    auto prepared = need(multi.prepare());
    const Endpoint self = prepared.endpoint();
    static_cast<void>(need(multi.add(need(std::move(prepared).connect(self)))));
  }
  std::vector<PeerIndex> peers = multi.peers();
  return {std::move(reactor), std::move(multi), std::move(peers)};
}

}  // namespace

void multi_multicast(Fixture& fixture, long operations) {
  static World world = make_world(fixture);
  for (long i = 0; i < operations; i += kPeers) {
    const auto done =
        world.multi.multicast(world.peers, Send{fixture.region.gather(fixture.message)});
    if (!done) report(done.error());
  }
}

}  // namespace verbatim::overhead
