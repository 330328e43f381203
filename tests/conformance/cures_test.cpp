// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: six weaknesses of the system that this library follows are fixed: C1 waits have no end, C2
//       handles that outlive the queue pair spin, C3 a failure halfway hangs, D1 the completion
//       queue can overrun, D2 a full queue looks like lack of memory, H1 memory can be freed while
//       it is registered and in use.
// Method: for each, the program that showed the weakness.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <vector>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Cures : public testing::Test {
 protected:
  [[nodiscard]] Buffer empty(std::size_t bytes = 64) { return require(domain.allocate(bytes)); }
  void connect(const ChannelOptions& options) {
    pair.reset();
    pair = require(connect_pair(domain, options));
  }
  [[nodiscard]] Channel& left() { return pair->first; }
  [[nodiscard]] Channel& right() { return pair->second; }

  std::uint64_t seed = test_seed();
  ProtectionDomain domain = require(open_context().allocate_domain());
  std::optional<std::pair<Channel, Channel>> pair = require(connect_pair(domain));
};

TEST_F(Cures, C1_ReceiveThatNeverMatchesEndsEverywhere) {
  const ChannelOptions short_ones{.timeout = 50ms, .flush_timeout = 100ms};
  Buffer sink = empty();
  const auto start = Clock::now();
  // At the end of a scope,
  connect(short_ones);
  const auto outcome =
      right().scope([&](Scope& scope) { static_cast<void>(scope.post(Receive{sink.scatter()})); });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().operations[0].code, Errc::timed_out);
  // while an error is returned,
  connect(short_ones);
  const auto failed = right().scope([&](Scope& scope) -> Result<void> {
    static_cast<void>(scope.post(Receive{sink.scatter()}));
    return std::unexpected(Error{.code = Errc::malformed});
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().closure->code, Errc::malformed);
  // while an exception propagates,
  connect(short_ones);
  EXPECT_THROW(static_cast<void>(right().scope([&](Scope& scope) {
                 static_cast<void>(scope.post(Receive{sink.scatter()}));
                 throw std::runtime_error("on purpose");
               })),
               std::runtime_error);
  // in a blocking call, and in a destructor.
  connect(short_ones);
  EXPECT_TRUE(fails_with(right().receive(sink.scatter()), Errc::timed_out));
  connect(short_ones);
  {
    const auto dropped = right().receive(empty());
  }
  pair.reset();
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

TEST_F(Cures, C2_HandleOutlivesTheChannelAndGivesItsBufferBack) {
  auto receiving = right().receive(empty());
  auto unreceived = left().receive(empty());
  auto sending = left().send(empty());
  {
    const Channel gone = std::move(left());  // The sender goes first.
  }
  pair.reset();  // Now both queue pairs are destroyed.
  const auto start = Clock::now();
  auto [sent, send_result] = sending.wait();
  EXPECT_TRUE(sent);
  auto [received, receive_result] = receiving.wait();
  EXPECT_TRUE(received);
  auto [never, never_result] = unreceived.wait();
  EXPECT_TRUE(never);
  EXPECT_TRUE(fails_with(never_result, Errc::closed));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
  {
    auto [a, b] = require(connect_pair(domain));
    pair.emplace(std::move(a), std::move(b));
    auto dropped = std::optional{right().receive(empty())};
    pair.reset();
    dropped.reset();  // After its channel, without a wait.
  }
}

TEST_F(Cures, C3_FailureHalfwayDoesNotWaitForSendersThatNeverSend) {
  connect({.max_receives = 4, .timeout = 50ms, .flush_timeout = 100ms});
  std::vector<std::byte> memory(1024);
  const MemoryRegion region = require(domain.register_local(memory));
  const auto start = Clock::now();
  const auto outcome = right().scope([&](Scope& scope) -> Result<void> {
    std::vector<Operation> all;
    for (std::size_t i = 0; i < 5; ++i)  // The fifth finds the queue full.
      all.push_back(scope.post(Receive{region.scatter(std::span{memory}.subspan(64 * i, 64))}));
    EXPECT_TRUE(all[3].posted());
    const auto refused = scope.wait(all[4]);
    EXPECT_TRUE(fails_with(refused, Errc::would_block));
    return std::unexpected(refused.error());
  });
  EXPECT_LT(Clock::now() - start, kPatience / 2);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure->code, Errc::would_block);
  EXPECT_EQ(outcome.error().operations.size(), 4u);  // And each of the others is accounted for.
}

TEST_F(Cures, D1_CompletionQueueHoldsAllThatTheQueuesCan) {
  constexpr std::uint32_t kMany = 300;  // Far more than a completion queue of 32 would hold.
  connect({.max_sends = kMany, .max_receives = kMany});
  std::vector<Pending<Buffer>> all;
  for (std::uint32_t i = 0; i < kMany; ++i) all.push_back(right().receive(empty(8)));
  for (std::uint32_t i = 0; i < kMany; ++i) all.push_back(left().send(empty(8)));
  for (std::uint32_t i = 0; i < kMany; ++i) all.push_back(left().receive(empty(8)));
  for (std::uint32_t i = 0; i < kMany; ++i) all.push_back(right().send(empty(8)));
  for (const auto& each : all) ASSERT_TRUE(each.posted());
  // Nobody has polled so far, and both queues of each side complete.
  for (auto& each : all) ASSERT_TRUE(succeeds(each.wait().result));
  EXPECT_FALSE(left().cause());
  EXPECT_FALSE(right().cause());
}

TEST_F(Cures, D2_FullQueueIsToldFromTooManyElements) {
  connect({.max_sends = 2, .max_send_elements = 1});
  std::vector<Pending<Buffer>> sending;
  for (int i = 0; i < 2; ++i) sending.push_back(left().send(empty()));
  auto [kept, full] = left().send(empty()).wait();
  ASSERT_TRUE(fails_with(full, Errc::would_block));
  EXPECT_STREQ(full.error().field, "max_sends");
  EXPECT_EQ(full.error().limit, 2u);
  EXPECT_TRUE(kept);
  EXPECT_FALSE(left().cause()) << "it is no failure of the channel";
  std::vector<Pending<Buffer>> receiving;
  for (int i = 0; i < 3; ++i) receiving.push_back(right().receive(empty()));
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
  auto again = left().send(std::move(kept));
  EXPECT_TRUE(succeeds(again.wait().result));

  constexpr std::size_t kTooMany = 64;
  if (left().limits().max_send_elements >= kTooMany) return;
  Buffer one = empty();
  const std::vector<GatherElement> elements(kTooMany, one.gather());
  const auto wide = left().run(Send{std::span{elements}});
  EXPECT_TRUE(fails_with(wide, Errc::limit_exceeded));
}

TEST_F(Cures, H1_MemoryOfAnOperationCannotBeFreedUnderIt) {
  // Owned memory: if the program drops the handle and allocates again, it does not get the memory
  // that is in use.
  const std::byte* where = nullptr;
  {
    Buffer sink = empty(4096);
    where = sink.bytes().data();
    const auto dropped = right().receive(std::move(sink));
  }
  std::vector<Buffer> others;
  for (int i = 0; i < 16; ++i) {
    others.push_back(empty(4096));
    ASSERT_NE(others.back().bytes().data(), where);
  }
  Buffer message = empty(4096);
  fill(message.bytes(), seed);
  EXPECT_TRUE(succeeds(left().send(std::move(message)).wait().result));
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(right().poll());
    return right().free_receives() == 127;
  }));
  for (Buffer& each : others) EXPECT_TRUE(all_equal(each.bytes(), std::byte{}));
  // Borrowed memory: the scope does not return before the device is done, whatever the closure
  // does.
  std::vector<std::byte> borrowed(64);
  const MemoryRegion region = require(domain.register_local(borrowed));
  auto sending = left().send(empty(64));
  EXPECT_THROW(static_cast<void>(right().scope([&](Scope& scope) {
                 static_cast<void>(scope.post(Receive{region.scatter(std::span{borrowed})}));
                 throw std::runtime_error("on purpose");
               })),
               std::runtime_error);
  EXPECT_EQ(right().free_receives(), 127u);
  EXPECT_TRUE(succeeds(sending.wait().result));
}

}  // namespace
}  // namespace verbatim::test
