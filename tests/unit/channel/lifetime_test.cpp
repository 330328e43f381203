// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: handles and channels may be destroyed in any order, and a channel that ended and was
//       recycled keeps nothing of its former life.
// Method: a scripted device; each order in which the objects can be destroyed, also under
//         AddressSanitizer.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <optional>
#include <stop_token>
#include <vector>

#include "support/scripted_device.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class Lifetime : public ScriptedDevice {
 protected:
  Lifetime() { open_channel({.max_sends = 2, .max_receives = 2, .flush_timeout = 20ms}); }
};

TEST_F(Lifetime, RefusedHandleOutlivesItsChannel) {
  auto first = channel().send(buffer());
  auto second = channel().send(buffer());
  auto refused = channel().send(buffer());
  script.complete_all(script.sends);
  EXPECT_TRUE(succeeds(first.wait().result));
  EXPECT_TRUE(succeeds(second.wait().result));
  close_channel();
  EXPECT_FALSE(refused.posted());
  EXPECT_TRUE(refused.ready());
  auto [memory, result] = refused.wait();
  EXPECT_TRUE(fails_with(result, Errc::would_block));
  EXPECT_TRUE(memory);
}

TEST_F(Lifetime, LastHandleThatWasWaitedForIsStaleAfterItsChannel) {
  auto received = channel().receive(buffer());
  auto& receiving = received;  // Otherwise clang would not let it be used again.
  close_channel();
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::closed));  // Nothing is left of it now.
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::stale));
  EXPECT_TRUE(receiving.ready());
}

TEST_F(Lifetime, HandleMovedFromIsStaleAfterItsChannel) {
  auto received = channel().receive(buffer());
  auto& receiving = received;  // Otherwise clang would not let it be used again.
  auto moved = std::move(receiving);
  close_channel();
  EXPECT_TRUE(fails_with(moved.wait().result, Errc::closed));
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::stale));  // NOLINT: on purpose
  Pending<Buffer> assigned = std::move(moved);
  assigned = std::move(receiving);  // NOLINT: on purpose
}

TEST_F(Lifetime, LastOfManyParkedResultsFreesTheChannel) {
  std::vector<Pending<Buffer>> all;
  for (int i = 0; i < 2; ++i) all.push_back(channel().send(buffer()));
  for (int i = 0; i < 2; ++i) all.push_back(channel().receive(buffer()));
  script.complete(script.sends[0].id);
  close_channel();
  const int before = live();
  EXPECT_TRUE(succeeds(all[0].wait().result));
  all.erase(all.begin() + 1);  // Dropped, not waited for.
  EXPECT_TRUE(fails_with(all[1].wait().result, Errc::closed));
  EXPECT_LT(live(), before);
  const int with_core = live();
  all.pop_back();
  EXPECT_LT(live(), with_core - 1);  // Its buffer, and the channel's own objects.
}

TEST_F(Lifetime, DroppedHandlesKeepTheirBuffersUntilTheCompletion) {
  const int before = live();
  {
    const auto dropped = channel().send(buffer());
    const auto both = channel().send(std::array{buffer(), buffer()});
  }
  EXPECT_GT(live(), before);
  script.complete(script.sends[0].id);
  script.complete(script.sends[1].id, IBV_WC_REM_OP_ERR);  // Also when it fails.
  EXPECT_EQ(require(channel().poll()), 2u);
  EXPECT_EQ(live(), before);
}

TEST_F(Lifetime, ChannelMovesUnderItsScope) {
  Buffer memory = buffer();
  std::optional<Channel> moved;
  const auto outcome = channel().scope([&](Scope& scope) {
    const auto operation = scope.post(Send{memory.gather()});
    moved = std::move(channel());
    script.complete(script.sends[0].id);
    EXPECT_TRUE(succeeds(scope.wait(operation)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(moved->free_sends(), 2u);
}

// ---- Scopes in scopes ---------------------------------------------------------------------------

TEST_F(Lifetime, InnerScopeMayWaitForTheOuterOnesOperation) {
  Buffer memory = buffer();
  const auto outcome = channel().manual_scope([&](Scope& outer) {
    const auto operation = outer.post(Send{memory.gather()});
    const auto inner = channel().manual_scope([&](Scope& scope) {
      script.complete(script.sends[0].id);
      EXPECT_TRUE(succeeds(scope.wait(operation)));
    });
    EXPECT_TRUE(inner.has_value());
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Lifetime, InnerScopeFinishesItsOwnAlsoWhenItWaitedForTheOuterOnes) {
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& outer) {
    // As many as the inner scope has itself, because the counts must not cancel out.
    const auto outside = outer.post(Send{memory.gather()});
    const auto inner = channel().scope([&](Scope& scope) {
      static_cast<void>(scope.post(Send{memory.gather()}));
      script.complete(script.sends[0].id);
      EXPECT_TRUE(succeeds(scope.wait(outside)));
      script.empty_polls = 3;
      script.complete(script.sends[1].id);
    });
    EXPECT_TRUE(inner.has_value());
    EXPECT_TRUE(script.completions.empty());  // It waited for its own work.
    EXPECT_EQ(channel().free_sends(), 2u);
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Lifetime, InnerScopesFailuresAreItsOwn) {
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& outer) {
    const auto inner = channel().scope([&](Scope& scope) {
      scope.post_detached(Send{memory.gather()});
      script.complete(script.sends[0].id, IBV_WC_REM_ACCESS_ERR);
    });
    ASSERT_FALSE(inner.has_value());
    EXPECT_EQ(inner.error().operations.size(), 1u);
    outer.post_detached(Send{memory.gather()});  // The channel is over.
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::broken);
}

// ---- A second life ------------------------------------------------------------------------------

TEST_F(Lifetime, RecycledChannelForgetsTheEventsOfItsQueuePair) {
  // A channel does not show its queue pair, so the test catches it when it is created.
  static ibv_qp* made = nullptr;
  close_channel();
  table.create_qp = [](ibv_pd* domain, ibv_qp_init_attr* init) {
    return made = verbatim_null_provider()->create_qp(domain, init);
  };
  open_channel();
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  event.element.qp = made;
  ASSERT_EQ(verbatim_null_raise(made->context, &event), 0);
  auto receiving = channel().receive(buffer());
  EXPECT_TRUE(fails_with(receiving.wait(30s).result, Errc::device_failed));
  EXPECT_EQ(channel().cause()->code, Errc::device_failed);
  channel() = connect(require(std::move(channel()).recycle()));
  auto sending = channel().send(buffer());
  script.empty_polls = 3;  // Makes the wait look at the events.
  script.complete(script.sends.back().id);
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_FALSE(channel().cause());
}

TEST_F(Lifetime, ChannelOfADeviceThatDiedCannotBeRecycled) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  const Context context = domain().context();
  ASSERT_EQ(verbatim_null_raise(unsafe::native(context), &event), 0);
  auto receiving = channel().receive(buffer());
  EXPECT_TRUE(fails_with(receiving.wait(30s).result, Errc::device_failed));
  EXPECT_TRUE(fails_with(std::move(channel()).recycle(), Errc::device_failed));
}

TEST_F(Lifetime, RecycledChannelForgetsTheCancel) {
  std::stop_source source;
  channel().cancel_on(source.get_token());
  const Canceller canceller = channel().canceller();
  canceller.cancel();
  EXPECT_TRUE(fails_with(channel().send(buffer()).wait().result, Errc::broken));
  channel() = connect(require(std::move(channel()).recycle()));
  source.request_stop();  // From the former life.
  auto sending = channel().send(buffer());
  script.empty_polls = 3;
  script.complete(script.sends.back().id);
  EXPECT_TRUE(succeeds(sending.wait().result));
  canceller.cancel();
  EXPECT_TRUE(fails_with(channel().send(buffer()).wait().result, Errc::broken));
}

TEST_F(Lifetime, RecycledChannelReportsFailuresAgain) {
  Buffer memory = buffer();
  for (int round = 0; round < 3; ++round) {
    const auto outcome = channel().scope([&](Scope& scope) {
      scope.post_detached(Send{memory.gather()});
      script.complete(script.sends.back().id, IBV_WC_REM_ACCESS_ERR);
    });
    ASSERT_FALSE(outcome.has_value());
    ASSERT_EQ(outcome.error().operations.size(), 1u);  // Its own failure, none of the former lives.
    EXPECT_EQ(outcome.error().operations[0].code, Errc::work_failed);
    channel() = connect(require(std::move(channel()).recycle()));
  }
}

TEST_F(Lifetime, CancellerMovedFromDoesNothing) {
  Canceller canceller = channel().canceller();
  const Canceller moved = std::move(canceller);
  canceller.cancel();  // NOLINT: on purpose
  EXPECT_EQ(require(channel().poll()), 0u);
}

// ---- Moved from ---------------------------------------------------------------------------------

using MovedFromDeathTest = Lifetime;

TEST_F(MovedFromDeathTest, ChannelSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Channel moved = std::move(channel());
  Channel& empty = channel();
  const char* const told = "Channel: used after it was moved from";
  EXPECT_DEATH(static_cast<void>(empty.poll()), told);
  EXPECT_DEATH(static_cast<void>(empty.fd()), told);
  EXPECT_DEATH(static_cast<void>(empty.cause()), told);
  EXPECT_DEATH(static_cast<void>(empty.limits()), told);
  EXPECT_DEATH(static_cast<void>(empty.agreement()), told);
  EXPECT_DEATH(static_cast<void>(empty.domain()), told);
  EXPECT_DEATH(static_cast<void>(empty.free_sends()), told);
  EXPECT_DEATH(static_cast<void>(empty.free_receives()), told);
  EXPECT_DEATH(static_cast<void>(empty.ready_record()), told);
  EXPECT_DEATH(static_cast<void>(empty.confirm({})), told);
  EXPECT_DEATH(empty.cancel(), told);
  EXPECT_DEATH(empty.cancel_on({}), told);
  EXPECT_DEATH(static_cast<void>(empty.finish_sends()), told);
  EXPECT_DEATH(static_cast<void>(empty.close()), told);
  EXPECT_DEATH(static_cast<void>(std::move(empty).recycle()), told);
  const RemoteAtomic word = require(RemoteAtomic::at({.address = 8, .length = 8, .key = {}}));
  EXPECT_DEATH(static_cast<void>(empty.fetch_add(word, 1)), told);
  EXPECT_DEATH(static_cast<void>(empty.compare_swap(word, 1, 2)), told);
}

TEST_F(MovedFromDeathTest, PreparedChannelSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto prepared = require(PreparedChannel::create(domain()));
  const Endpoint peer = prepared.endpoint();
  const PreparedChannel moved = std::move(prepared);
  const char* const told = "PreparedChannel: used after it was connected or moved from";
  EXPECT_DEATH(static_cast<void>(prepared.endpoint()), told);                // NOLINT: on purpose
  EXPECT_DEATH(static_cast<void>(prepared.receive(buffer())), told);         // NOLINT: on purpose
  EXPECT_DEATH(static_cast<void>(std::move(prepared).connect(peer)), told);  // NOLINT: on purpose
}

}  // namespace
}  // namespace verbatim::test
