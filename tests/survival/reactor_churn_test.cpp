// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a server for four clients serves any number of them, one after the other: the next client
//       gets what a channel that left had in the completion queue and in the slab.
// Method: a reactor with room for exactly four channels; 100,000 clients, of which the oldest
//         leaves when the next one comes. Each sends a message; every third leaves with one more on
//         its way, and before every fifth there is one that never connects.
// Covers: reactor/reactor.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <deque>

#include "channel/completion_core.hpp"
#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "survival/contained.hpp"
#include "survival/holdings.hpp"
#include "survival/process.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class Churn {
 public:
  void clients(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      if (pairs_.size() == kClients) pairs_.pop_front();
      if (i % 5 == 0) static_cast<void>(prepared());
      pairs_.push_back(next());
      talk(pairs_.back(), i);
    }
  }
  [[nodiscard]] std::uint32_t depth() const {
    return SharedCompletions{server_}.core()->completions.depth();
  }

 private:
  static constexpr std::uint32_t kClients = 4;
  static constexpr std::uint32_t kDepth = 15;
  struct Pair {
    Channel server;
    Channel client;
  };

  [[nodiscard]] Result<PreparedChannel> prepare(const Reactor& on) const {
    return PreparedChannel::create(domain_,
                                   {.on = on, .max_sends = kDepth, .max_receives = kDepth});
  }
  /// The places of a client that left come back when its end is proven.
  [[nodiscard]] PreparedChannel prepared() {
    auto server = prepare(server_);
    const auto has_room = [&] {
      static_cast<void>(server_.poll());
      static_cast<void>(client_.poll());
      server = prepare(server_);
      return server || server.error() != Errc::limit_exceeded;
    };
    if (!server) static_cast<void>(eventually(has_room, kPatience));
    return require(std::move(server));
  }
  [[nodiscard]] Pair next() {
    auto server = prepared();
    auto client = require(prepare(client_));
    const Endpoint to_client = client.endpoint();
    const Endpoint to_server = server.endpoint();
    return {require(std::move(server).connect(to_client)),
            require(std::move(client).connect(to_server))};
  }
  void talk(Pair& pair, unsigned number) {
    const auto hear = [](Channel& channel, Buffer buffer) -> Task<Result<void>> {
      auto heard = co_await channel.receive(std::move(buffer));
      if (!heard.result) co_return std::unexpected(heard.result.error());
      co_return Result<void>{};
    };
    auto sending = pair.client.send(pool_.try_take());
    ASSERT_TRUE(succeeds(server_.run(hear(pair.server, pool_.try_take()))));
    ASSERT_TRUE(succeeds(sending.wait().result));
    if (number % 3 != 0) return;
    static_cast<void>(pair.server.receive(pool_.try_take()));
    static_cast<void>(pair.client.send(pool_.try_take()));
  }

  ProtectionDomain domain_ = require(open_context().allocate_domain());
  // Each channel has one more slot in each queue, for its end.
  Reactor server_ =
      require(Reactor::create(domain_, {.max_operations = kClients * 2 * (kDepth + 1)}));
  Reactor client_ = require(Reactor::create(domain_));
  Pool pool_ = require(Pool::create(domain_, {.bytes = 64, .count = 64}));
  std::deque<Pair> pairs_{};
};

TEST(ReactorChurn, QueueForFourServesAnyNumberOfClients) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck, [] {
    Churn churn;
    churn.clients(100);
    const std::uint32_t depth = churn.depth();
    const Holdings early = Holdings::now();
    churn.clients(100'000);
    EXPECT_EQ(churn.depth(), depth);
    // The device releases some of it later.
    EXPECT_TRUE(eventually([&] { return Holdings::now().is_like(early); }))
        << Holdings::now() << "; it was " << early;
  });
}

}  // namespace
}  // namespace verbatim::test
