// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a forked child does with the objects of its parent does not harm the parent.
// Method: bare verbs in a child on every kind of object. Afterwards the parent moves data and gets
//         an event. This is not in the conformance suite, because the kernel lets a child destroy
//         its parent's objects.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "soft/shared/objects.hpp"
#include "support/forked_child.hpp"
#include "support/raw_verbs.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using raw::verbs;

/// One of each, and two queue pairs that are connected.
struct Device {
  raw::Owned<ibv_context> context = raw::open();
  raw::Owned<ibv_pd> domain = raw::domain(context.get());
  raw::Owned<ibv_comp_channel> channel = raw::channel(context.get());
  raw::Owned<ibv_cq> queue = raw::completion_queue(context.get(), 64, channel.get());
  raw::Owned<ibv_srq> shared = raw::shared_receive_queue(domain.get());
  std::vector<std::byte> memory = std::vector<std::byte>(4096);
  raw::Owned<ibv_mr> region = raw::region(domain.get(), memory);
  raw::Owned<ibv_qp> left = pair();
  raw::Owned<ibv_qp> right = pair();

  Device() { raw::connect(left.get(), right.get()); }
  [[nodiscard]] raw::Owned<ibv_qp> pair() const {
    return raw::queue_pair({.domain = domain.get(),
                            .sends = queue.get(),
                            .receives = queue.get(),
                            .shared = shared.get()});
  }
  /// A message with an event, by way of every object.
  void expect_works() {
    ASSERT_EQ(ibv_req_notify_cq(queue.get(), 0), 0);
    memory[0] = std::byte{0x5a};
    memory[1024] = std::byte{0};
    ASSERT_EQ(raw::post_receive(shared.get(), 1, raw::local(region.get(), 1024, 64)), 0);
    ASSERT_EQ(raw::post_send(left.get(), 2, raw::local(region.get(), 0, 64)), 0);
    raw::poll_ok(queue.get());
    raw::poll_ok(queue.get());
    EXPECT_EQ(memory[1024], std::byte{0x5a});
    ASSERT_TRUE(raw::is_readable(channel->fd, 10s)) << "no event came";
    ibv_cq* of = nullptr;
    void* user = nullptr;
    ASSERT_EQ(verbs().get_cq_event(channel.get(), &of, &user), 0);
    verbs().ack_cq_events(of, 1);
  }
  void expect_destroyed() {
    EXPECT_EQ(verbs().destroy_qp(left.release()), 0);
    EXPECT_EQ(verbs().destroy_qp(right.release()), 0);
    EXPECT_EQ(verbs().dereg_mr(region.release()), 0);
    EXPECT_EQ(verbs().destroy_srq(shared.release()), 0);
    EXPECT_EQ(verbs().destroy_cq(queue.release()), 0);
    EXPECT_EQ(verbs().destroy_comp_channel(channel.release()), 0);
    EXPECT_EQ(verbs().dealloc_pd(domain.release()), 0);
    EXPECT_EQ(verbs().close_device(context.release()), 0);
  }
};

TEST(InheritedObjects, AreNotDestroyedByAChild) {
  Device device;
  device.expect_works();
  in_forked_child([&] {
    alarm(60);  // Another thread of the parent may hold a lock.
    device.expect_destroyed();
  });
  device.expect_works();
}

TEST(InheritedObjects, AreNotMixedUpWithTheChildsOwn) {
  Device device;
  in_forked_child([&] {
    alarm(60);
    Device own;
    own.expect_works();
    in_forked_child([&] {  // It inherits from both.
      alarm(60);
      own.expect_destroyed();
      device.expect_destroyed();
    });
    own.expect_works();
    own.expect_destroyed();
    device.expect_destroyed();
    Device next;
    next.expect_works();
  });
  device.expect_works();
}

TEST(InheritedObjects, EventOfTheParentIsNotAcknowledgedByAChild) {
  Device device;
  ASSERT_EQ(raw::change_state(device.left.get(), IBV_QPS_ERR), 0);
  ibv_async_event event{};
  ASSERT_EQ(verbs().get_async_event(device.context.get(), &event), 0);
  ASSERT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  std::latch inside{1};
  std::latch forked{1};
  std::thread other{[&] {
    const std::lock_guard held{engine::Context::of(device.context.get()).event_mutex};
    inside.count_down();
    forked.wait();
  }};
  inside.wait();
  in_forked_child([&] {
    alarm(60);
    verbs().ack_async_event(&event);
  });
  forked.count_down();
  other.join();
  verbs().ack_async_event(&event);  // If this is missing, the queue pair cannot be destroyed.
}

TEST(InheritedObjects, MemoryStaysWithTheParent) {
  Device device;
  void* const memory = verbs().alloc_memory(device.context.get(), 64, HugePages::off);
  ASSERT_NE(memory, nullptr);
  in_forked_child([&] {
    alarm(60);
    errno = 0;
    EXPECT_EQ(verbs().alloc_memory(device.context.get(), 64, HugePages::off), nullptr);
    EXPECT_EQ(errno, EOWNERDEAD);
    EXPECT_EQ(verbs().free_memory(device.context.get(), memory, 64), 0);
  });
  *static_cast<std::byte*>(memory) = std::byte{1};
  EXPECT_EQ(verbs().free_memory(device.context.get(), memory, 64), 0);
}

TEST(InheritedObjects, CannotBeUsedByAChild) {
  Device device;
  in_forked_child([&] {
    alarm(60);
    EXPECT_EQ(raw::change_state(device.left.get(), IBV_QPS_ERR), EOWNERDEAD);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(verbs().query_qp(device.left.get(), &attributes, IBV_QP_STATE, &init), EOWNERDEAD);
    EXPECT_EQ(verbs().resize_cq(device.queue.get(), 128), EOWNERDEAD);
    errno = 0;
    EXPECT_EQ(verbs().reg_mr(device.domain.get(), device.memory.data(), 64, 0), nullptr);
    EXPECT_EQ(errno, EOWNERDEAD);
    errno = 0;
    EXPECT_EQ(verbs().create_cq(device.context.get(), 16, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EOWNERDEAD);
    errno = 0;
    EXPECT_NE(verbs().rereg_mr(device.region.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                               IBV_ACCESS_LOCAL_WRITE),
              0);
    EXPECT_EQ(errno, EOWNERDEAD);
    ibv_port_attr port{};
    EXPECT_EQ(verbs().query_port(device.context.get(), 1, &port), 0) << "it only reads";
  });
  device.expect_works();
}

}  // namespace
}  // namespace verbatim::test
