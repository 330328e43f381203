// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: events come in order, wake any thread that waits for the descriptor, and never name an
//       object that is gone.
// Method: events raised by hand on an open context; a thread for the one call that waits.
#include "soft/control/events.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "soft/control/completion_queue.hpp"
#include "soft/shared/objects.hpp"
#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::engine {
namespace {

class EventsTest : public testing::Test {
 protected:
  EventsTest() {
    EXPECT_NE(queue, nullptr);
    fcntl(raw->async_fd, F_SETFL, fcntl(raw->async_fd, F_GETFL) | O_NONBLOCK);
  }
  ~EventsTest() override {
    if (queue != nullptr) {
      EXPECT_EQ(destroy_completion_queue(queue), 0);
    }
  }
  [[nodiscard]] bool is_readable() const {
    pollfd entry{.fd = raw->async_fd, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  verbatim::Context opened = test::open_context({.events = EventDelivery::manual});
  ibv_context* raw = unsafe::native(opened);
  Context& context = Context::of(raw);
  ibv_cq* queue = create_completion_queue(raw, 16, nullptr, nullptr, 0);
};

TEST_F(EventsTest, ComeInOrder) {
  EXPECT_FALSE(is_readable());
  raise_event(context, IBV_EVENT_PORT_ERR, nullptr, 1);
  raise_event(context, IBV_EVENT_CQ_ERR, queue);
  EXPECT_TRUE(is_readable());
  ibv_async_event event{};
  ASSERT_EQ(get_event(raw, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
  acknowledge_event(&event);
  ASSERT_EQ(get_event(raw, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, queue);
  acknowledge_event(&event);
  EXPECT_FALSE(is_readable());
}

TEST_F(EventsTest, NoneIsAnErrorThatSaysSo) {
  ibv_async_event event{};
  EXPECT_EQ(get_event(raw, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(EventsTest, OfAnObjectThatIsGoneVanish) {
  raise_event(context, IBV_EVENT_CQ_ERR, queue);
  ASSERT_EQ(destroy_completion_queue(queue), 0);
  queue = nullptr;
  raise_event(context, IBV_EVENT_PORT_ACTIVE, nullptr, 1);
  ibv_async_event event{};
  ASSERT_EQ(get_event(raw, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(get_event(raw, &event), -1) << "the wake-up that was left is no event";
}

TEST_F(EventsTest, DestroyingWaitsForTheAcknowledgement) {
  raise_event(context, IBV_EVENT_CQ_ERR, queue);
  raise_event(context, IBV_EVENT_CQ_ERR, queue);
  ibv_async_event first{};
  ibv_async_event second{};
  ASSERT_EQ(get_event(raw, &first), 0);
  ASSERT_EQ(get_event(raw, &second), 0);
  std::atomic<bool> destroyed{false};
  const std::jthread destroyer{[&] {
    EXPECT_EQ(destroy_completion_queue(queue), 0);
    destroyed.store(true);
  }};
  acknowledge_event(&first);
  EXPECT_FALSE(test::eventually([&] { return destroyed.load(); }, std::chrono::milliseconds{20}));
  acknowledge_event(&second);
  EXPECT_TRUE(test::eventually([&] { return destroyed.load(); }));
  queue = nullptr;
}

}  // namespace
}  // namespace verbatim::engine
