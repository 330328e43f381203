// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: detached work outside any scope frees its slot by itself, and never delays an end.
#include <gtest/gtest.h>

#include <cerrno>
#include <source_location>

#include "channel/channel_state.hpp"
#include "support/scripted_device.hpp"
#include "verbatim/reactor/close.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class Unscoped : public ScriptedDevice {
 protected:
  [[nodiscard]] detail::ChannelState& state() {
    return detail::whole(detail::ChannelAccess::core(channel(), std::source_location::current()));
  }
  /// Whether it was posted.
  bool post() {
    const Write<1> work{
        memory_->gather(0, 8), RemoteMemoryRegion{.address = 64, .length = 8}, {.inlined = true}};
    return !state().post_unscoped(work, std::source_location::current()).refused();
  }
  void open(const ChannelOptions& options = {}) {
    open_channel(options);
    memory_.emplace(buffer());
  }
  void TearDown() override {
    memory_.reset();
    ScriptedDevice::TearDown();
  }

 private:
  std::optional<Buffer> memory_;
};

TEST_F(Unscoped, WorkHasItsSlotUntilItCompletes) {
  open({.max_sends = 2});
  EXPECT_TRUE(post());
  EXPECT_TRUE(post());
  EXPECT_FALSE(post());
  EXPECT_EQ(state().unscoped.detached, 2u);
  script.complete(script.sends[0].id);
  EXPECT_EQ(require(channel().poll()), 0u) << "no result for anybody";
  EXPECT_EQ(channel().free_sends(), 1u);
  EXPECT_TRUE(post());
  script.complete(script.sends[1].id);
  script.complete(script.sends[2].id);
  EXPECT_TRUE(succeeds(channel().finish_sends(1s)));
  EXPECT_EQ(state().unscoped.detached, 0u);
}

TEST_F(Unscoped, ARefusalLeavesNothingBehind) {
  open({.max_sends = 1});
  script.send_refusal = ENOMEM;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(post());
  EXPECT_TRUE(state().ledger.refused.empty());
  EXPECT_EQ(state().unscoped.detached, 0u);
  EXPECT_EQ(channel().free_sends(), 1u);
}

TEST_F(Unscoped, FailureEndsTheChannelAndIsKeptForNoScope) {
  open();
  ASSERT_TRUE(post());
  ASSERT_TRUE(post());
  script.complete(script.sends[0].id, IBV_WC_REM_ACCESS_ERR);
  static_cast<void>(channel().poll());
  ASSERT_TRUE(channel().cause());
  EXPECT_EQ(channel().cause()->code, Errc::work_failed);
  EXPECT_TRUE(channel().is_over());
  EXPECT_TRUE(state().ledger.failed.empty());
  EXPECT_EQ(state().unscoped.detached, 0u);
}

/// Its bytes were copied, so a device that cannot be stopped harms no memory.
TEST_F(Unscoped, WorkBorrowsNothing) {
  in_child([&] {
    open();
    ASSERT_TRUE(post());
    script.error_refusal = EIO;
    script.destroy_refusal = EBUSY;
    channel().cancel();
    static_cast<void>(channel().poll());
    EXPECT_EQ(channel().cause()->code, Errc::cancelled);
    EXPECT_EQ(state().unscoped.detached, 0u);
  });
}

}  // namespace
}  // namespace verbatim::test
