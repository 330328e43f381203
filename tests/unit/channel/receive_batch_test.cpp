// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a batch of receives rings one doorbell, has a handle for each, and loses none of them,
//       however much of it the device takes.
// Method: a scripted device that refuses at each place of the batch.
// Covers: channel/posting.cpp
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "support/named_error.hpp"
#include "support/scripted_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class ReceiveBatch : public ScriptedDevice {
 protected:
  static constexpr std::size_t kReceives = 4;
  ReceiveBatch() {
    open_channel({.max_sends = 2, .max_receives = kReceives, .flush_timeout = 20ms});
  }
  [[nodiscard]] std::vector<Buffer> buffers(std::size_t count) {
    std::vector<Buffer> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(buffer());
    return all;
  }
  static std::vector<Receive<1>> receives(std::vector<Buffer>& into) {
    std::vector<Receive<1>> all;
    for (Buffer& each : into) all.push_back(Receive{each.scatter()});
    return all;
  }
};

TEST_F(ReceiveBatch, RingsOneDoorbellAndEachHasItsHandle) {
  auto memory = buffers(3);
  const auto all = receives(memory);
  const auto outcome = channel().manual_scope([&](Scope& scope) {
    std::array<Operation, 3> handles;
    scope.post(all, handles);
    EXPECT_EQ(script.receive_calls, 1u);
    ASSERT_EQ(script.receives.size(), 3u);
    EXPECT_EQ(channel().free_receives(), 1u);
    for (const std::size_t i : {1u, 0u, 2u}) {
      script.complete(script.receives[i].id, IBV_WC_SUCCESS, IBV_WC_RECV);
      const auto done = scope.wait(handles[i]);
      ASSERT_TRUE(succeeds(done));
      EXPECT_EQ(done->id(), WrId{script.receives[i].id});
    }
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(channel().free_receives(), kReceives);
}

TEST_F(ReceiveBatch, MayFollowAnother) {
  auto memory = buffers(kReceives);
  auto all = receives(memory);
  const auto outcome = channel().scope([&](Scope& scope) {
    std::array<Operation, kReceives> handles;
    scope.post(std::span{all}.first(1), handles);
    scope.post(std::span{all}.subspan(1),
               std::span{handles}.subspan(1));  // The requests are linked correctly.
    EXPECT_EQ(script.receive_calls, 2u);
    ASSERT_EQ(script.receives.size(), kReceives);
    script.complete_all(script.receives);
    EXPECT_TRUE(succeeds(scope.wait_all(handles)));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ReceiveBatch, ThatDoesNotFitPostsNone) {
  auto memory = buffers(kReceives + 1);
  const auto all = receives(memory);
  std::array<Operation, kReceives + 1> handles;
  const auto outcome = channel().scope([&](Scope& scope) {
    scope.post(all, handles);  // Never.
    for (const Operation each : handles)
      EXPECT_TRUE(fails_naming(scope.wait(each), Errc::limit_exceeded, "max_receives",
                               {kReceives + 1, kReceives}));
    const auto first = scope.post(std::array{Receive{memory[0].scatter()}});
    const auto now = std::span{all}.subspan(1);
    scope.post(now, handles);  // Not now.
    for (const Operation each : std::span{handles}.first(kReceives))
      EXPECT_TRUE(fails_naming(scope.wait(each), Errc::would_block, "max_receives",
                               {kReceives, kReceives}));
    EXPECT_EQ(script.receives.size(), 1u);
    EXPECT_EQ(channel().free_receives(), kReceives - 1);
    script.complete(script.receives[0].id);
    EXPECT_TRUE(succeeds(scope.wait(first[0])));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ReceiveBatch, WithTooManyElementsPostsNone) {
  std::vector<Buffer> memory = buffers(1);
  std::vector<ScatterElement> wide;
  for (std::size_t i = 0; i < 64; ++i) wide.push_back(memory[0].scatter(i, 1));
  std::vector<Receive<std::dynamic_extent>> all;
  all.push_back(Receive{std::span<const ScatterElement>{wide}.first(1)});
  all.push_back(Receive{std::span<const ScatterElement>{wide}});
  const auto outcome = channel().scope([&](Scope& scope) {
    std::array<Operation, 2> handles;
    scope.post(all, handles);
    for (const Operation each : handles)
      EXPECT_TRUE(fails_with(scope.wait(each), Errc::limit_exceeded));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(script.receives.empty());
  EXPECT_EQ(channel().free_receives(), kReceives);
}

TEST_F(ReceiveBatch, TheDeviceTakesAPartAndTheRestComesBack) {
  for (std::size_t taken = 0; taken < 3; ++taken) {
    script.receives.clear();
    script.receive_refusal = ENOMEM;
    script.accepted_receives = taken;
    auto posted = channel().receive_each(buffers(3));
    ASSERT_EQ(posted.size(), 3u);
    EXPECT_EQ(channel().free_receives(), kReceives - taken);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(posted[i].posted(), i < taken) << taken;
    for (std::size_t i = taken; i < 3; ++i) {
      auto [memory, result] = posted[i].wait();
      EXPECT_TRUE(fails_with(result, Errc::would_block));
      EXPECT_TRUE(memory);
    }
    script.complete_all(script.receives);
    for (std::size_t i = 0; i < taken; ++i) EXPECT_TRUE(succeeds(posted[i].wait().result));
    EXPECT_EQ(channel().free_receives(), kReceives);
  }
  EXPECT_FALSE(channel().cause());
}

TEST_F(ReceiveBatch, RefusedPartOfAScopeFailsIt) {
  auto memory = buffers(3);
  const auto all = receives(memory);
  script.receive_refusal = ENOMEM;
  script.accepted_receives = 1;
  const auto outcome = channel().scope([&](Scope& scope) {
    std::array<Operation, 3> handles;
    scope.post(all, handles);
    script.complete_all(script.receives);
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().operations.size(), 2u);
  EXPECT_EQ(channel().free_receives(), kReceives);
}

TEST_F(ReceiveBatch, ScopeCountsWhatTheDeviceTook) {
  auto memory = buffers(3);
  const auto all = receives(memory);
  script.receive_refusal = ENOMEM;
  script.accepted_receives = 1;
  const auto outcome = channel().manual_scope([&](Scope& scope) {  // A scope would report one more.
    std::array<Operation, 3> handles;
    scope.post(all, handles);
    script.complete_all(script.receives);
    EXPECT_TRUE(succeeds(scope.wait(handles[0])));
    EXPECT_TRUE(fails_with(scope.wait(handles[1]), Errc::would_block));
    EXPECT_TRUE(fails_with(scope.wait(handles[2]), Errc::would_block));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ReceiveBatch, ThatTheDeviceTookWithoutSayingHowMuchEndsTheChannel) {
  script.receive_refusal = EIO;
  script.accepted_receives = 1;
  script.name_rejected = false;
  auto posted = channel().receive_each(buffers(2));
  for (auto& each : posted) {
    auto [memory, result] = each.wait();
    EXPECT_TRUE(fails_with(result, Errc::device_failed));
    EXPECT_TRUE(memory);
  }
  ASSERT_TRUE(channel().cause());
  EXPECT_EQ(channel().cause()->code, Errc::device_failed);
}

TEST_F(ReceiveBatch, OfNothingIsNothing) {
  EXPECT_TRUE(channel().receive_each(std::vector<Buffer>{}).empty());
  EXPECT_EQ(script.receive_calls, 0u);
}

TEST_F(ReceiveBatch, IsRefusedByAChannelThatEnded) {
  channel().cancel();
  auto posted = channel().receive_each(buffers(2));
  for (auto& each : posted) EXPECT_TRUE(fails_with(each.wait().result, Errc::broken));
}

TEST_F(ReceiveBatch, HandleOfNoOperationIsStale) {
  const auto outcome = channel().scope([&](Scope& scope) {
    EXPECT_FALSE(Operation{}.posted());
    EXPECT_TRUE(fails_with(scope.wait(Operation{}), Errc::stale));
  });
  EXPECT_TRUE(outcome.has_value());
}

using ReceiveBatchDeathTest = ReceiveBatch;

TEST_F(ReceiveBatchDeathTest, NeedsAHandleForEach) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto memory = buffers(2);
  const auto all = receives(memory);
  EXPECT_DEATH(static_cast<void>(channel().scope([&](Scope& scope) {
                 std::array<Operation, 1> handles;
                 scope.post(all, handles);
               })),
               "too few handles");
}

}  // namespace
}  // namespace verbatim::test
