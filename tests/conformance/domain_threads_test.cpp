// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: objects of one domain may be created and destroyed in different threads at the same time:
//       Buffers in one, queue pairs and channels in another, traffic in a third.
// Method: threads that share the domain and nothing else, for many rounds; the lanes of the
//         sanitizers run this, too.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {
namespace {

class DomainThreads : public testing::Test {
 protected:
  /// Runs all parts at once; each is called this many times with its round.
  static void run(unsigned rounds, const std::vector<std::function<void(unsigned)>>& parts) {
    std::atomic<unsigned> failed{0};
    std::vector<std::jthread> threads;
    for (const auto& part : parts)
      threads.emplace_back([&] {
        try {
          for (unsigned i = 0; i < rounds && failed == 0; ++i) part(i);
        } catch (const SetupFailed& failure) {
          ++failed;
          ADD_FAILURE() << failure.what();
        }
      });
  }
  /// A message from one end to the other, checked.
  void exchange_once(Channel& from, Channel& to, std::uint64_t seed) {
    Buffer message = require(domain.allocate(3000));
    fill(message.bytes(), seed);
    auto receiving = to.receive(require(domain.allocate(3000)));
    require(from.send(message.gather()));
    auto [buffer, result] = receiving.wait();
    EXPECT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(buffer.bytes(), seed));
  }

  static inline const ChannelOptions kSmall{.max_sends = 4, .max_receives = 4};
  unsigned rounds = 60 * stress_factor();
  ProtectionDomain domain = require(open_context().allocate_domain());
};

TEST_F(DomainThreads, BuffersAndChannelsComeAndGo) {
  const auto channels = [&](unsigned) { static_cast<void>(require(connect_pair(domain, kSmall))); };
  const auto buffers = [&](unsigned) {
    for (int i = 0; i < 10; ++i) static_cast<void>(require(domain.allocate(4096)));
  };
  run(rounds, {channels, buffers, channels, buffers});
}

TEST_F(DomainThreads, BuffersAndRegionsComeAndGoBesideTraffic) {
  auto talking = require(connect_pair(domain));
  const auto regions = [&](unsigned) {
    std::vector<std::byte> memory(5000);
    static_cast<void>(require(domain.register_local(memory)));
    static_cast<void>(require(domain.allocate_shared(5000, Access::remote_read)));
  };
  run(rounds, {[&](unsigned i) { exchange_once(talking.first, talking.second, i); }, regions,
               [&](unsigned) { static_cast<void>(require(domain.allocate(4096))); }});
}

TEST_F(DomainThreads, ChannelsWithWorkEndBesideOthers) {
  const auto end_with_work = [&](unsigned i) {
    auto pair = require(connect_pair(domain, kSmall));
    exchange_once(pair.first, pair.second, i);
    auto receiving = pair.second.receive(require(domain.allocate(64)));
    if (i % 2 == 0) pair.first.cancel();
    // Both end, and their work ends with them.
  };
  const auto buffers = [&](unsigned) {
    for (int i = 0; i < 10; ++i) static_cast<void>(require(domain.allocate(4096)));
  };
  run(rounds / 3, {end_with_work, end_with_work, buffers});
}

}  // namespace
}  // namespace verbatim::test
