// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Pairs of channels of this process on one Reactor, and memory for them.
#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {

class ReactorChannels : public testing::Test {
 protected:
  [[nodiscard]] std::pair<Channel, Channel> connected(ChannelOptions options = {}) {
    options.on = reactor;
    options.max_sends = 15;
    options.max_receives = 15;
    return require(connect_pair(domain, options));
  }
  [[nodiscard]] Buffer memory(std::size_t bytes = 64) { return require(domain.allocate(bytes)); }

  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  Reactor reactor = require(Reactor::create(domain));
};

}  // namespace verbatim::test
