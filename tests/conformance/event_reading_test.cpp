// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a descriptor is readable only while a read would not block, whatever happened to the
//       objects in between; a thread that is cancelled while it sleeps for an event ends, and does
//       no harm.
// Method: events that nobody reads, of objects that are destroyed; pthread_cancel.
#include <gtest/gtest.h>

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <optional>

#include "conformance/raw_peer.hpp"
#include "support/blocked_thread.hpp"
#include "support/contained.hpp"

namespace verbatim::test {
namespace {

/// A shared receive queue with one receive, whose use raises the limit event; and its queue pair.
struct LowQueue {
  explicit LowQueue(ibv_context* context)
      : domain(raw::domain(context)),
        completions(raw::completion_queue(context)),
        shared(raw::shared_receive_queue(domain.get())),
        receiver(raw::queue_pair({.domain = domain.get(),
                                  .sends = completions.get(),
                                  .receives = completions.get(),
                                  .shared = shared.get()})),
        sender(raw::queue_pair(
            {.domain = domain.get(), .sends = completions.get(), .receives = completions.get()})) {
    raw::connect(receiver.get(), sender.get());
  }
  void raise() const {
    ASSERT_EQ(raw::post_receive(shared.get(), 1, {}), 0);
    ibv_srq_attr wanted{};
    wanted.srq_limit = 1;
    ASSERT_EQ(raw::verbs().modify_srq(shared.get(), &wanted, IBV_SRQ_LIMIT), 0);
    ASSERT_EQ(raw::post_send(sender.get(), 2, {}), 0);
    raw::poll_ok(completions.get());
    raw::poll_ok(completions.get());
  }
  void destroy() {
    receiver.reset();
    sender.reset();
    shared.reset();
  }
  raw::Owned<ibv_pd> domain;
  raw::Owned<ibv_cq> completions;
  raw::Owned<ibv_srq> shared;
  raw::Owned<ibv_qp> receiver;
  raw::Owned<ibv_qp> sender;
};

void make_nonblocking(int fd) { ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0); }

class EventDescriptor : public testing::Test {
 protected:
  void SetUp() override {
    if (!capabilities().shared_receive_queue)
      GTEST_SKIP() << "the device has no shared receive queues to raise an event with";
  }
  [[nodiscard]] bool is_readable(std::chrono::milliseconds patience = {}) const {
    return raw::is_readable(context_->async_fd, patience);
  }
  /// Without blocking.
  [[nodiscard]] std::optional<ibv_async_event> next_event() const {
    make_nonblocking(context_->async_fd);
    ibv_async_event event{};
    if (raw::verbs().get_async_event(context_.get(), &event) != 0) return std::nullopt;
    raw::verbs().ack_async_event(&event);
    return event;
  }
  raw::Owned<ibv_context> context_ = raw::open();
};

TEST_F(EventDescriptor, IsReadableWhileAnEventWaits) {
  LowQueue queue(context_.get());
  EXPECT_FALSE(is_readable());
  queue.raise();
  EXPECT_TRUE(is_readable(kPatience));
  EXPECT_TRUE(next_event());
  EXPECT_FALSE(is_readable());
  EXPECT_FALSE(next_event());
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(EventDescriptor, IsNotReadableWhenTheObjectOfTheOnlyEventIsGone) {
  LowQueue queue(context_.get());
  queue.raise();
  ASSERT_TRUE(is_readable(kPatience));
  queue.destroy();
  EXPECT_FALSE(is_readable()) << "the read that follows would block";
}

TEST_F(EventDescriptor, StaysReadableForTheObjectThatIsLeft) {
  LowQueue first(context_.get());
  LowQueue second(context_.get());
  first.raise();
  second.raise();
  ASSERT_TRUE(is_readable(kPatience));
  first.destroy();
  ASSERT_TRUE(is_readable(kPatience));
  const auto event = next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->element.srq, second.shared.get());
  EXPECT_FALSE(is_readable()) << "the read that follows would block";
}

/// A completion queue that has raised an event on the channel.
struct SignalledQueue {
  SignalledQueue(ibv_context* context, ibv_comp_channel* channel)
      : domain(raw::domain(context)),
        completions(raw::completion_queue(context, 64, channel)),
        other(raw::completion_queue(context)),
        receiver(raw::queue_pair(
            {.domain = domain.get(), .sends = completions.get(), .receives = completions.get()})),
        sender(raw::queue_pair(
            {.domain = domain.get(), .sends = other.get(), .receives = other.get()})) {
    raw::connect(receiver.get(), sender.get());
  }
  void raise() const {
    ASSERT_EQ(raw::post_receive(receiver.get(), 1, {}), 0);
    ASSERT_EQ(ibv_req_notify_cq(completions.get(), 0), 0);
    ASSERT_EQ(raw::post_send(sender.get(), 2, {}), 0);
    raw::poll_ok(other.get());
  }
  void destroy() {
    receiver.reset();
    sender.reset();
    completions.reset();
  }
  raw::Owned<ibv_pd> domain;
  raw::Owned<ibv_cq> completions;
  raw::Owned<ibv_cq> other;
  raw::Owned<ibv_qp> receiver;
  raw::Owned<ibv_qp> sender;
};

/// The queue that the next event of the channel names, without blocking.
ibv_cq* next_queue(ibv_comp_channel* channel) {
  make_nonblocking(channel->fd);
  ibv_cq* queue = nullptr;
  void* its_context = nullptr;
  if (raw::verbs().get_cq_event(channel, &queue, &its_context) != 0) return nullptr;
  raw::verbs().ack_cq_events(queue, 1);
  return queue;
}

class ChannelDescriptor : public testing::Test {
 protected:
  [[nodiscard]] bool is_readable(std::chrono::milliseconds patience = {}) const {
    return raw::is_readable(channel_->fd, patience);
  }
  raw::Owned<ibv_context> context_ = raw::open();
  raw::Owned<ibv_comp_channel> channel_ = raw::channel(context_.get());
};

TEST_F(ChannelDescriptor, IsNotReadableWhenTheQueueOfTheOnlyEventIsGone) {
  SignalledQueue queue(context_.get(), channel_.get());
  queue.raise();
  ASSERT_TRUE(is_readable(kPatience));
  queue.destroy();
  EXPECT_FALSE(is_readable()) << "the read that follows would block";
  EXPECT_EQ(next_queue(channel_.get()), nullptr);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ChannelDescriptor, StaysReadableForTheQueueThatIsLeft) {
  SignalledQueue first(context_.get(), channel_.get());
  SignalledQueue second(context_.get(), channel_.get());
  first.raise();
  second.raise();
  ASSERT_TRUE(is_readable(kPatience));
  first.destroy();
  ASSERT_TRUE(is_readable(kPatience));
  EXPECT_EQ(next_queue(channel_.get()), second.completions.get());
  EXPECT_FALSE(is_readable()) << "the read that follows would block";
}

// ---- pthread_cancel

TEST_F(ChannelDescriptor, ThreadThatSleepsForItMayBeCancelled) {
  contained([this] {
    SignalledQueue queue(context_.get(), channel_.get());
    const auto sleep = [this] {
      ibv_cq* signalled = nullptr;
      void* its_context = nullptr;
      static_cast<void>(raw::verbs().get_cq_event(channel_.get(), &signalled, &its_context));
    };
    for (int i = 0; i < 2; ++i) {
      BlockedThread sleeper(sleep);
      EXPECT_TRUE(sleeper.sleeps());
      sleeper.cancel();
      EXPECT_TRUE(sleeper.ends_within(kPatience));
      EXPECT_TRUE(sleeper.join()) << "it returned instead";
    }
    queue.raise();
    EXPECT_TRUE(is_readable(kPatience));
    EXPECT_EQ(next_queue(channel_.get()), queue.completions.get()) << "the next read works";
  });
}

TEST_F(EventDescriptor, ThreadThatSleepsForItMayBeCancelled) {
  contained([this] {
    LowQueue queue(context_.get());
    const auto sleep = [this] {
      ibv_async_event event{};
      static_cast<void>(raw::verbs().get_async_event(context_.get(), &event));
    };
    for (int i = 0; i < 2; ++i) {
      BlockedThread sleeper(sleep);
      EXPECT_TRUE(sleeper.sleeps());
      sleeper.cancel();
      EXPECT_TRUE(sleeper.ends_within(kPatience));
      EXPECT_TRUE(sleeper.join()) << "it returned instead";
    }
    queue.raise();
    EXPECT_TRUE(is_readable(kPatience));
    EXPECT_TRUE(next_event()) << "the next read works";
  });
}

}  // namespace
}  // namespace verbatim::test
