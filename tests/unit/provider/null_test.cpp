// SPDX-License-Identifier: MIT OR Apache-2.0
// The null provider itself, through its table: the properties that other tests rely on.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "providers/null.hpp"

namespace verbatim {
namespace {

class Null : public testing::Test {
 protected:
  void SetUp() override {
    verbatim_null_knobs() = {};
    verbatim_null_knobs().acknowledgement = {};  // No other thread would send one.
    ASSERT_EQ(verbatim_null_live_objects(), 0);
    ibv_device** const list = verbs.get_device_list(nullptr);
    context = verbs.open_device(list[0]);
    verbs.free_device_list(list);
    fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
    domain = verbs.alloc_pd(context);
    channel = verbs.create_comp_channel(context);
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    queue = verbs.create_cq(context, 16, this, channel, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queue;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 2,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 16};
    init.qp_type = IBV_QPT_RC;
    queue_pair = verbs.create_qp(domain, &init);
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
      ASSERT_EQ(move_to(state), 0);
  }
  void TearDown() override {
    EXPECT_EQ(verbs.destroy_qp(queue_pair), 0);
    EXPECT_EQ(verbs.destroy_cq(queue), 0);
    EXPECT_EQ(verbs.destroy_comp_channel(channel), 0);
    EXPECT_EQ(verbs.dealloc_pd(domain), 0);
    EXPECT_EQ(verbs.close_device(context), 0);
    EXPECT_EQ(verbatim_null_live_objects(), 0);
    verbatim_null_knobs() = {};
  }

  int move_to(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return verbs.modify_qp(queue_pair, &attributes, IBV_QP_STATE);
  }
  int post(std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED, std::uint32_t bytes = 8) {
    ibv_sge element{0, bytes, 0};
    ibv_send_wr request{};
    request.wr_id = id;
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags;
    ibv_send_wr* rejected = nullptr;
    return ibv_post_send(queue_pair, &request, &rejected);
  }
  ibv_wc poll() {
    ibv_wc completion{};
    EXPECT_EQ(ibv_poll_cq(queue, 1, &completion), 1);
    return completion;
  }
  bool has_event() {
    ibv_cq* from = nullptr;
    void* user = nullptr;
    if (verbs.get_cq_event(channel, &from, &user) != 0) return false;
    EXPECT_EQ(from, queue);
    EXPECT_EQ(user, this);
    return true;
  }

  const Provider& verbs = *verbatim_null_provider();
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* queue_pair = nullptr;
};

TEST_F(Null, CompletesASendInItsPost) {
  ASSERT_EQ(post(7), 0);
  const ibv_wc completion = poll();
  EXPECT_EQ(completion.wr_id, 7u);
  EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion.byte_len, 8u);
  EXPECT_EQ(completion.qp_num, queue_pair->qp_num);
}

TEST_F(Null, HasRoomForWhatWasAskedAndNoMore) {
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(post(id, 0), 0);
  ASSERT_EQ(post(3), 0);
  EXPECT_EQ(post(4), ENOMEM);
  EXPECT_EQ(poll().wr_id, 3u);  // The only signaled one; it frees all four.
  for (std::uint64_t id = 0; id < 4; ++id) EXPECT_EQ(post(id), 0);
  EXPECT_EQ(post(4), ENOMEM);
}

TEST_F(Null, RefusesWhatADeviceRefuses) {
  EXPECT_EQ(post(1, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 17), EINVAL);
  ibv_recv_wr receive{};
  ibv_recv_wr* rejected = nullptr;
  EXPECT_EQ(ibv_post_recv(queue_pair, &receive, &rejected), 0);
  EXPECT_EQ(ibv_post_recv(queue_pair, &receive, &rejected), 0);
  EXPECT_EQ(ibv_post_recv(queue_pair, &receive, &rejected), ENOMEM);
  EXPECT_EQ(rejected, &receive);
  EXPECT_EQ(move_to(IBV_QPS_RTR), EINVAL);
  ASSERT_EQ(move_to(IBV_QPS_RESET), 0);
  EXPECT_EQ(post(1), EINVAL);
  EXPECT_EQ(verbs.dealloc_pd(domain), EBUSY);
  EXPECT_EQ(verbs.destroy_cq(queue), EBUSY);
}

TEST_F(Null, FailsASendWhenToldAndFlushesTheNext) {
  ASSERT_EQ(verbatim_null_fail_send(queue_pair, IBV_WC_RETRY_EXC_ERR), 0);
  ASSERT_EQ(post(1), 0);
  ASSERT_EQ(post(2, 0), 0);  // Failures complete, signaled or not.
  EXPECT_EQ(poll().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(poll().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(queue_pair->state, IBV_QPS_ERR);
}

TEST_F(Null, RaisesOneEventPerArming) {
  ASSERT_EQ(post(1), 0);
  EXPECT_FALSE(has_event());
  ASSERT_EQ(ibv_req_notify_cq(queue, 0), 0);
  ASSERT_EQ(post(2), 0);
  ASSERT_EQ(post(3), 0);
  ASSERT_TRUE(has_event());
  EXPECT_FALSE(has_event());
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(verbs.destroy_qp(queue_pair), 0);
  EXPECT_EQ(verbs.destroy_cq(queue), EBUSY);  // Not acknowledged.
  verbs.ack_cq_events(queue, 1);
  // For TearDown().
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue;
  init.qp_type = IBV_QPT_UD;
  queue_pair = verbs.create_qp(domain, &init);
}

TEST_F(Null, HandsOutInjectedCompletionsAndEvents) {
  ASSERT_EQ(ibv_req_notify_cq(queue, 1), 0);
  ibv_wc received{};
  received.wr_id = 9;
  received.opcode = IBV_WC_RECV;
  ASSERT_EQ(verbatim_null_complete(queue, &received), 0);
  ASSERT_TRUE(has_event());
  verbs.ack_cq_events(queue, 1);
  EXPECT_EQ(poll().opcode, IBV_WC_RECV);

  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = queue_pair;
  ASSERT_EQ(verbatim_null_raise(context, &event), 0);
  ibv_async_event seen{};
  ASSERT_EQ(verbs.get_async_event(context, &seen), 0);
  EXPECT_EQ(seen.element.qp, queue_pair);
  EXPECT_EQ(verbs.destroy_qp(queue_pair), EBUSY);
  verbs.ack_async_event(&seen);
  EXPECT_EQ(verbs.get_async_event(context, &seen), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(verbatim_null_raise(context, &event), 0);  // Goes with the queue pair, in TearDown().
}

}  // namespace
}  // namespace verbatim
