// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a handle on borrowed memory is an operation like any other: reported once, refused,
//       dropped, and never returned while the device may still use the memory.
// Method: a scripted device, also under AddressSanitizer.
#include "verbatim/channel/unsafe.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "support/scripted_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class UnsafeChannel : public ScriptedDevice {
 protected:
  UnsafeChannel() {
    open_channel({.max_sends = 2, .max_receives = 2, .flush_timeout = 20ms});
    memory.emplace(buffer());
  }
  void TearDown() override {
    memory.reset();
    ScriptedDevice::TearDown();
  }
  [[nodiscard]] unsafe::PendingWork send() {
    return unsafe::post(channel(), Send{memory->gather(0, 8)});
  }
  /// Each into a separate part.
  [[nodiscard]] unsafe::PendingWork receive() {
    received_ += 8;
    return unsafe::post(channel(), Receive{memory->scatter(received_, 8)});
  }

  std::optional<Buffer> memory;

 private:
  std::size_t received_ = 0;
};

TEST_F(UnsafeChannel, TellsItsResultOnce) {
  auto sent = send();
  auto& sending = sent;  // Otherwise clang would not let it be used again.
  ASSERT_EQ(script.sends.size(), 1u);
  EXPECT_EQ(script.sends[0].flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_TRUE(sending.posted());
  EXPECT_FALSE(sending.ready());
  EXPECT_FALSE(sending.ready_within(0ms));
  script.complete(script.sends[0].id);
  EXPECT_TRUE(sending.ready());
  EXPECT_TRUE(sending.ready_within(0ms));
  EXPECT_EQ(sending.id(), WrId{script.sends[0].id});
  EXPECT_EQ(require(sending.wait()).id(), WrId{script.sends[0].id});
  EXPECT_TRUE(fails_with(sending.wait(), Errc::stale));
  EXPECT_TRUE(sending.ready());
  EXPECT_EQ(channel().free_sends(), 2u);
}

TEST_F(UnsafeChannel, FullQueueIsToldByTheWait) {
  auto first = send();
  auto second = send();
  auto refused = send();
  EXPECT_FALSE(refused.posted());
  EXPECT_TRUE(refused.ready());
  EXPECT_TRUE(refused.ready_within(0ms));
  EXPECT_TRUE(fails_with(refused.wait(), Errc::would_block));
  auto late = send();
  script.complete_all(script.sends);
  EXPECT_TRUE(succeeds(first.wait()));
  EXPECT_TRUE(succeeds(second.wait()));
  close_channel();
  EXPECT_TRUE(fails_with(late.wait(), Errc::would_block));
}

TEST_F(UnsafeChannel, FailureIsToldAndEndsTheChannel) {
  auto sending = send();
  script.complete(script.sends[0].id, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(fails_with(sending.wait(), Errc::work_failed));
  EXPECT_EQ(channel().cause()->code, Errc::work_failed);
}

TEST_F(UnsafeChannel, DeadlineEndsTheChannel) {
  EXPECT_TRUE(fails_with(receive().wait(0ms), Errc::timed_out));
  EXPECT_EQ(channel().cause()->code, Errc::timed_out);
}

TEST_F(UnsafeChannel, DroppedOperationGoesOnAndItsResultIsNobodys) {
  {
    const auto sending = send();
    auto receiving = receive();
    receiving = receive();  // The first of the two is dropped.
    script.complete(script.receives[1].id, IBV_WC_SUCCESS, IBV_WC_RECV);
    EXPECT_TRUE(succeeds(receiving.wait()));
  }
  EXPECT_EQ(channel().free_sends(), 1u);  // The device has them.
  EXPECT_EQ(channel().free_receives(), 1u);
  script.complete(script.sends[0].id);
  script.complete(script.receives[0].id, IBV_WC_SUCCESS, IBV_WC_RECV);
  EXPECT_EQ(require(channel().poll()), 2u);
  EXPECT_EQ(channel().free_sends(), 2u);
  EXPECT_EQ(channel().free_receives(), 2u);
  EXPECT_EQ(channel().dropped_messages(), 1u);
  EXPECT_FALSE(channel().cause());
}

TEST_F(UnsafeChannel, ResultThatWasThereAlreadyIsDroppedToo) {
  {
    auto sending = send();
    script.complete(script.sends[0].id);
    EXPECT_TRUE(sending.ready());
  }
  EXPECT_EQ(channel().free_sends(), 2u);
}

TEST_F(UnsafeChannel, HandleMayOutliveItsChannel) {
  auto receiving = receive();
  auto dropped = std::optional{receive()};
  auto moved = std::move(receiving);
  close_channel();
  dropped.reset();
  EXPECT_TRUE(moved.ready());
  EXPECT_TRUE(fails_with(moved.wait(), Errc::closed));
}

class UnprovenUnsafeDeathTest : public UnsafeChannel {
 protected:
  UnprovenUnsafeDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void nothing_works() {
    script.error_refusal = EIO;
    script.destroy_refusal = EBUSY;
  }
  static constexpr const char* kNotStopped = "the device cannot be stopped";
};

TEST_F(UnprovenUnsafeDeathTest, WaitAborts) {
  EXPECT_DEATH(
      {
        auto receiving = receive();
        nothing_works();
        static_cast<void>(receiving.wait(0ms));
      },
      kNotStopped);
}

TEST_F(UnprovenUnsafeDeathTest, HandleThatWasDroppedBeforeAborts) {
  EXPECT_DEATH(
      {
        {
          const auto dropped = receive();
        }
        nothing_works();
        channel().cancel();
        static_cast<void>(channel().poll());
        std::_Exit(0);
      },
      kNotStopped);
}

TEST_F(UnprovenUnsafeDeathTest, DroppingTheHandleAfterwardsAborts) {
  EXPECT_DEATH(
      {
        auto late = std::optional{receive()};
        nothing_works();
        channel().cancel();
        static_cast<void>(channel().poll());
        std::fputs("the channel has ended", stderr);
        late.reset();
        std::_Exit(0);
      },
      "the channel has ended.*the device cannot be stopped");
}

}  // namespace
}  // namespace verbatim::test
