// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel may move from thread to thread, and any thread may cancel it at any time: while
//       its thread waits, posts or closes, and after it is gone.
// Method: threads that do so, with barriers and without sleeping; the lane for ThreadSanitizer runs
//         this, too.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <future>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class ChannelThreads : public testing::Test {
 protected:
  [[nodiscard]] Buffer empty(std::size_t bytes = 64) { return require(domain.allocate(bytes)); }

  std::uint64_t seed = test_seed();
  ProtectionDomain domain = require(open_context().allocate_domain());
  std::pair<Channel, Channel> pair = require(connect_pair(domain));
};

TEST_F(ChannelThreads, ChannelAndHandlesGoFromThreadToThread) {
  struct Cargo {
    Channel from;
    Channel to;
    std::optional<Pending<Buffer>> sending;
    std::optional<Pending<Buffer>> receiving;
  };
  Cargo cargo{std::move(pair.first), std::move(pair.second), {}, {}};
  for (std::uint64_t i = 0; i < 20; ++i) {
    // Each thread finishes what the one before began, and begins a new operation.
    std::promise<Cargo> promise;
    std::thread worker([&, taken = std::move(cargo)]() mutable {
      if (taken.receiving) {
        auto [buffer, result] = taken.receiving->wait();
        EXPECT_TRUE(succeeds(result));
        EXPECT_TRUE(holds(buffer.bytes(), seed + i - 1));
        EXPECT_TRUE(succeeds(taken.sending->wait().result));
      }
      taken.receiving.emplace(taken.to.receive(empty()));
      Buffer message = empty();
      fill(message.bytes(), seed + i);
      taken.sending.emplace(taken.from.send(std::move(message)));
      promise.set_value(std::move(taken));
    });
    cargo = promise.get_future().get();
    worker.join();
  }
}

TEST_F(ChannelThreads, RefusalsAreKnownInAnotherThread) {
  auto [small, other] = require(connect_pair(domain, {.max_sends = 1}));
  auto first = small.send(empty());
  auto refused = small.send(empty());
  std::thread([&] {
    auto [buffer, result] = refused.wait();
    EXPECT_TRUE(fails_with(result, Errc::would_block));
    EXPECT_TRUE(buffer);
  }).join();
  auto receiving = other.receive(empty());
  EXPECT_TRUE(succeeds(first.wait().result));
}

TEST_F(ChannelThreads, CancelEndsAWaitWheneverItComes) {
  for (int round = 0; round < 20; ++round) {
    auto [waiting, idle] = require(connect_pair(domain, {.flush_timeout = 100ms}));
    const Canceller canceller = waiting.canceller();
    auto receiving = waiting.receive(empty());
    std::barrier together{2};
    std::jthread other([&] {
      together.arrive_and_wait();
      for (int i = 0; i < round; ++i) std::this_thread::yield();
      canceller.cancel();
    });
    together.arrive_and_wait();
    auto [buffer, result] = receiving.wait(kPatience);
    EXPECT_TRUE(fails_with(result, Errc::cancelled));
    EXPECT_TRUE(buffer);
  }
}

TEST_F(ChannelThreads, CancelEndsAThreadThatPosts) {
  for (int round = 0; round < 5; ++round) {
    auto [posting, peer] = require(connect_pair(domain, {.flush_timeout = 100ms}));
    SharedRegion window = require(domain.allocate_shared(64, Access::remote_write));
    Buffer source = empty();
    std::atomic<bool> started{false};
    std::jthread other([&, canceller = posting.canceller()] {
      while (!started.load()) std::this_thread::yield();
      for (int i = 0; i < 50 * round; ++i) std::this_thread::yield();
      canceller.cancel();
      canceller.cancel();
    });
    Result<Completion> last = posting.write(source.gather(), window.remote());
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (last && std::chrono::steady_clock::now() < limit) {
      started = true;
      last = posting.write(source.gather(), window.remote());
    }
    started = true;
    ASSERT_FALSE(last.has_value());
    EXPECT_TRUE(last.error() == Errc::broken || last.error() == Errc::cancelled);
    EXPECT_EQ(posting.cause()->code, Errc::cancelled);
  }
}

TEST_F(ChannelThreads, CancelEndsAScopeOfDetachedPosts) {
  auto [posting, peer] = require(connect_pair(domain, {.flush_timeout = 100ms}));
  Buffer source = empty();
  std::barrier together{2};
  std::jthread other([&, canceller = posting.canceller()] {
    together.arrive_and_wait();
    canceller.cancel();
  });
  // Nobody receives, so the queue soon fills up, and the post waits for room.
  const auto outcome = posting.scope([&](Scope& scope) {
    together.arrive_and_wait();
    while (!posting.cause()) scope.post_detached(Send{source.gather()});
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(posting.cause()->code, Errc::cancelled);
}

TEST_F(ChannelThreads, StopRequestEndsAWait) {
  for (int round = 0; round < 5; ++round) {
    auto [waiting, idle] = require(connect_pair(domain, {.flush_timeout = 100ms}));
    std::stop_source source;
    waiting.cancel_on(source.get_token());
    auto receiving = waiting.receive(empty());
    std::jthread other([&] { source.request_stop(); });
    EXPECT_TRUE(fails_with(receiving.wait(kPatience).result, Errc::cancelled));
  }
}

TEST_F(ChannelThreads, StopRequestMeetsTheEndOfTheChannel) {
  for (int round = 0; round < 20; ++round) {
    std::optional<std::pair<Channel, Channel>> both =
        require(connect_pair(domain, {.flush_timeout = 50ms}));
    std::stop_source source;
    both->first.cancel_on(source.get_token());
    const Canceller canceller = both->first.canceller();
    std::barrier together{3};
    std::jthread stopping([&] {
      together.arrive_and_wait();
      source.request_stop();
    });
    std::jthread cancelling([&] {
      together.arrive_and_wait();
      canceller.cancel();
    });
    together.arrive_and_wait();
    both.reset();
  }
}

TEST_F(ChannelThreads, CancellerOutlivesTheChannelInAnotherThread) {
  std::optional<Pending<Buffer>> receiving = pair.second.receive(empty());
  std::atomic<bool> gone{false};
  std::atomic<bool> enough{false};
  std::jthread other([&, canceller = pair.second.canceller()] {
    while (!gone.load()) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) canceller.cancel();
    enough = true;
  });
  {
    const Channel ended = std::move(pair.second);
  }
  gone = true;
  auto [buffer, result] = receiving->wait();
  EXPECT_TRUE(buffer);
  EXPECT_TRUE(fails_with(result, Errc::closed));
  EXPECT_TRUE(eventually([&] { return enough.load(); }));
}

TEST_F(ChannelThreads, CancelMeetsRecycling) {
  auto [first, second] = require(connect_pair(domain, {.flush_timeout = 50ms}));
  std::atomic<bool> enough{false};
  std::jthread other([&, canceller = first.canceller()] {
    while (!enough.load()) {
      canceller.cancel();
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(eventually([&] {
      static_cast<void>(first.poll());
      return first.cause().has_value();
    }));
    auto prepared = require(std::move(first).recycle());
    const Endpoint self = prepared.endpoint();
    first = require(std::move(prepared).connect(self));
  }
  enough = true;
}

}  // namespace
}  // namespace verbatim::test
