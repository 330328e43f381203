// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the cases of channel/ with many peers share: a MultiChannel, with one peer at first.
#include <utility>
#include <vector>

#include "misuse/channel_misuse.hpp"
#include "verbatim/multi/multi_channel.hpp"

namespace verbatim::test {

struct Peers {
  static constexpr std::size_t kSize = 256;

  Peers() { join(); }
  void join() {
    auto ours = must(multi.prepare());
    auto theirs = must(PreparedChannel::create(domain));
    const Endpoint here = ours.endpoint();
    const Endpoint there = theirs.endpoint();
    static_cast<void>(must(multi.add(must(std::move(ours).connect(there)))));
    others.push_back(must(std::move(theirs).connect(here)));
  }
  /// The first peer receives.
  [[nodiscard]] Pending<Buffer> accept() {
    return others.front().receive(must(domain.allocate(kSize)));
  }

  Context context = must(open_device("soft0"));
  ProtectionDomain domain = must(context.allocate_domain());
  Reactor reactor = must(Reactor::create(domain));
  MultiChannel multi{reactor, domain};
  std::vector<Channel> others{};
  Buffer message = must(domain.allocate(kSize));
};

}  // namespace verbatim::test
