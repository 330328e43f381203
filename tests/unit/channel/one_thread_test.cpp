// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in checked builds, a channel that moves from thread to thread in order is accepted, and two
//       threads inside it at once are detected.
// Method: a scripted device, whose poll lets in another thread.
#include <gtest/gtest.h>

#include <thread>

#include "support/scripted_device.hpp"
#include "verbatim/base/sanitizers.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class OneThreadTest : public ScriptedDevice {};

TEST_F(OneThreadTest, ChannelMayBeHandedOver) {
  open_channel();
  for (int round = 0; round < 3; ++round) {
    auto sending = channel().send(buffer());
    std::thread{[&] {
      script.complete(script.sends.back().id);
      EXPECT_TRUE(succeeds(channel().poll()));
      EXPECT_TRUE(sending.ready());
    }}.join();
    EXPECT_TRUE(succeeds(sending.wait().result));
    std::thread{[&] { sending = channel().send(buffer()); }}.join();
    script.complete(script.sends.back().id);
    EXPECT_TRUE(succeeds(sending.wait(1s).result));
  }
}

TEST_F(OneThreadTest, CallInsideOfACallOfTheSameThreadIsFine) {
  open_channel();
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    const auto operation = scope.post(Send{memory.gather()});
    script.complete(script.sends.back().id);
    EXPECT_TRUE(succeeds(channel().poll()));
    EXPECT_TRUE(succeeds(scope.wait(operation)));
  });
  EXPECT_TRUE(outcome.has_value());
}

#if VERBATIM_IS_CHECKED

TEST_F(OneThreadTest, ThreadThatComesInWhileAnotherWaitsIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  open_channel();
  EXPECT_DEATH(
      {
        auto receiving = channel().receive(buffer());
        script.on_empty = [&] {
          std::thread{[&] { static_cast<void>(channel().send(buffer())); }}.join();
        };
        static_cast<void>(receiving.wait(1s));
      },
      "used by two threads at once: thread [0-9]+ is inside of the channel over queue pair "
      "0x[0-9a-f]+ on null0, and thread [0-9]+ comes in");
}

TEST_F(OneThreadTest, SoIsOneThatPollsWhileAnotherPolls) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  open_channel();
  EXPECT_DEATH(
      {
        script.on_empty = [&] { std::thread{[&] { static_cast<void>(channel().poll()); }}.join(); };
        static_cast<void>(channel().poll());
      },
      "used by two threads at once");
}

#endif

}  // namespace
}  // namespace verbatim::test
