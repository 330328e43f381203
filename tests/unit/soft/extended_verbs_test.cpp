// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: programs written for the extended verbs work: requests built call by call, completions
//       read field by field.
// Method: the inline functions of verbs.h on a pair of extended queue pairs in this process.
#include "soft/abi/extended_verbs.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "soft/completer/completion_queue.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/control/completion_queue.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/memory/registration.hpp"
#include "soft/responder/receive_ring.hpp"
#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::engine {
namespace {

using test::require;

constexpr std::uint64_t kOperations =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                             IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

class Extended : public testing::Test {
 protected:
  Extended() {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 64;
    wanted.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    queue = ibv_create_cq_ex(context, &wanted);
    if (queue == nullptr) test::give_up("ibv_create_cq_ex", test::Where::current());
    for (ibv_qp*& each : pairs) each = make();
    connect(pairs[0], pairs[1]);
    connect(pairs[1], pairs[0]);
    region = register_memory(domain, memory.data(), memory.size(), address(0), kAccess);
  }
  ~Extended() override {
    EXPECT_EQ(deregister_memory(region), 0);
    for (ibv_qp* const each : pairs) EXPECT_EQ(destroy_queue_pair(each), 0);
    EXPECT_EQ(destroy_completion_queue(ibv_cq_ex_to_cq(queue)), 0);
  }

  [[nodiscard]] ibv_qp_init_attr_ex wanted_pair() const {
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = ibv_cq_ex_to_cq(queue);
    wanted.recv_cq = ibv_cq_ex_to_cq(queue);
    wanted.cap = {.max_send_wr = 8,
                  .max_recv_wr = 8,
                  .max_send_sge = 2,
                  .max_recv_sge = 2,
                  .max_inline_data = 64};
    wanted.qp_type = IBV_QPT_RC;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = domain;
    wanted.send_ops_flags = kOperations;
    return wanted;
  }
  /// Like ibv_create_qp_ex, which would fall back to a function of libibverbs; that is not linked
  /// here.
  ibv_qp* create_pair(ibv_qp_init_attr_ex* wanted) const {
    return verbs_get_ctx(context)->create_qp_ex(context, wanted);
  }
  ibv_qp* make() {
    ibv_qp_init_attr_ex wanted = wanted_pair();
    ibv_qp* const made = create_pair(&wanted);
    if (made == nullptr) test::give_up("create_qp_ex", test::Where::current());
    return made;
  }
  static void modify(ibv_qp* pair, ibv_qp_attr attributes, int mask) {
    if (modify_queue_pair(pair, &attributes, mask) != 0)
      test::give_up("modify", test::Where::current());
  }
  static void connect(ibv_qp* pair, ibv_qp* peer) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = kAccess;
    modify(pair, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer->qp_num;
    attributes.max_dest_rd_atomic = 1;
    attributes.ah_attr.dlid = 1;
    attributes.min_rnr_timer = 1;
    attributes.ah_attr.port_num = 1;
    modify(pair, attributes,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    modify(pair, attributes,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
  }

  [[nodiscard]] std::uint64_t address(std::size_t offset) {
    return reinterpret_cast<std::uintptr_t>(memory.data() + offset);
  }
  std::uint64_t& word(std::size_t offset) {
    return *reinterpret_cast<std::uint64_t*>(memory.data() + offset);
  }
  void receive(std::uint64_t id, std::size_t offset, std::uint32_t length) {
    ibv_sge element{address(offset), length, region->lkey};
    ibv_recv_wr request{.wr_id = id, .next = nullptr, .sg_list = &element, .num_sge = 1};
    ibv_recv_wr* rejected = nullptr;
    ASSERT_EQ(post_receive(pairs[1], &request, &rejected), 0);
  }
  /// Adds a write of the word at 0 to the word at 512.
  void add_write(ibv_qp_ex* builder, std::uint64_t id) {
    builder->wr_id = id;
    ibv_wr_rdma_write(builder, region->rkey, address(512));
    ibv_wr_set_sge(builder, region->lkey, address(0), 8);
  }
  /// Waits for the next completion, and leaves the queue open for reading it.
  void start() {
    ibv_poll_cq_attr none{};
    ASSERT_TRUE(test::eventually([&] { return ibv_start_poll(queue, &none) == 0; }));
  }
  void next() {
    ASSERT_TRUE(test::eventually([&] { return ibv_next_poll(queue) == 0; }));
  }

  verbatim::ProtectionDomain owner = require(test::open_context().allocate_domain());
  ibv_pd* domain = unsafe::native(owner);
  ibv_context* context = domain->context;
  ibv_cq_ex* queue = nullptr;
  std::array<ibv_qp*, 2> pairs{};
  alignas(64) std::array<std::byte, 8192> memory{};
  ibv_mr* region = nullptr;
};

TEST_F(Extended, SendIsBuiltAndBothCompletionsAreRead) {
  receive(7, 4096, 100);
  test::fill(std::span{memory}.first(100), 3);
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  ASSERT_NE(builder, nullptr);
  ibv_wr_start(builder);
  builder->wr_id = 1;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(builder, 0x01020304);
  const ibv_sge elements[] = {{address(0), 60, region->lkey}, {address(60), 40, region->lkey}};
  ibv_wr_set_sge_list(builder, 2, elements);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  bool sent = false;
  bool received = false;
  start();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
    if (ibv_wc_read_opcode(queue) == IBV_WC_SEND) {
      sent = queue->wr_id == 1 && ibv_wc_read_qp_num(queue) == pairs[0]->qp_num;
    } else {
      received = queue->wr_id == 7 && ibv_wc_read_qp_num(queue) == pairs[1]->qp_num;
      EXPECT_EQ(ibv_wc_read_byte_len(queue), 100u);
      EXPECT_EQ(ibv_wc_read_imm_data(queue), 0x01020304u);
      EXPECT_EQ(ibv_wc_read_wc_flags(queue) & unsigned{IBV_WC_WITH_IMM}, unsigned{IBV_WC_WITH_IMM});
    }
    if (i == 0) next();
  }
  EXPECT_EQ(ibv_next_poll(queue), ENOENT);
  ibv_end_poll(queue);
  EXPECT_TRUE(sent && received);
  EXPECT_TRUE(test::holds(std::span{memory}.subspan(4096, 100), 3));
}

TEST_F(Extended, ListOfAllKindsRunsInOrder) {
  word(4096) = 5;
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  test::fill(std::span{memory}.first(64), 9);
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SIGNALED;
  builder->wr_id = 0;
  ibv_wr_rdma_write(builder, region->rkey, address(1024));
  ibv_wr_set_sge(builder, region->lkey, address(0), 64);
  builder->wr_id = 1;
  ibv_wr_rdma_read(builder, region->rkey, address(1024));
  ibv_wr_set_sge(builder, region->lkey, address(2048), 64);
  builder->wr_id = 2;
  ibv_wr_atomic_fetch_add(builder, region->rkey, address(4096), 3);
  ibv_wr_set_sge(builder, region->lkey, address(3072), 8);
  builder->wr_id = 3;
  ibv_wr_atomic_cmp_swp(builder, region->rkey, address(4096), 8, 100);
  ibv_wr_set_sge(builder, region->lkey, address(3080), 8);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  start();
  for (std::uint64_t id = 0; id < 4; ++id) {
    EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
    EXPECT_EQ(queue->wr_id, id);
    if (id < 3) next();
  }
  ibv_end_poll(queue);
  EXPECT_TRUE(test::holds(std::span{memory}.subspan(2048, 64), 9));
  EXPECT_EQ(word(3072), 5u);
  EXPECT_EQ(word(3080), 8u);
  EXPECT_EQ(word(4096), 100u);
}

TEST_F(Extended, InlineDataIsTakenWhenItIsSet) {
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  std::array<std::byte, 32> data{};
  test::fill(data, 4);
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(builder, region->rkey, address(512));
  ibv_wr_set_inline_data(builder, data.data(), data.size());
  data = {};
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  start();
  EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
  ibv_end_poll(queue);
  EXPECT_TRUE(test::holds(std::span{memory}.subspan(512, 32), 4));
}

TEST_F(Extended, AbortedListIsForgotten) {
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(builder, region->rkey, address(512));
  ibv_wr_set_sge(builder, region->lkey, address(0), 64);
  ibv_wr_abort(builder);
  ibv_wr_start(builder);
  EXPECT_EQ(ibv_wr_complete(builder), 0) << "an empty list is no error";
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(queue, &none), ENOENT);
}

TEST_F(Extended, TooManyRequestsFailAsAWhole) {
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SIGNALED;
  for (int i = 0; i < 9; ++i) {
    ibv_wr_rdma_write(builder, region->rkey, address(512));
    ibv_wr_set_sge(builder, region->lkey, address(0), 8);
  }
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(queue, &none), ENOENT) << "nothing was posted";
}

// If ibv_wr_complete fails, the whole list is aborted (man ibv_wr_post).
TEST_F(Extended, ListWithABadRequestRunsNothing) {
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  const ibv_sge element{address(0), 8, region->lkey};
  const std::array<ibv_sge, 3> too_many{element, element, element};
  word(0) = 0x5a;
  ibv_wr_start(builder);
  builder->wr_flags = IBV_SEND_SIGNALED;
  add_write(builder, 1);
  ibv_wr_rdma_write(builder, region->rkey, address(1024));
  ibv_wr_set_sge_list(builder, too_many.size(), too_many.data());
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL);
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(queue, &none), ENOENT) << "the first request completed";
  EXPECT_EQ(word(512), 0u) << "the first request ran";
}

TEST_F(Extended, ListWithoutRoomForAllRunsNothing) {
  constexpr std::uint32_t kPlaces = 8;  // As wanted_pair() asks for.
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(builder);
  for (std::uint64_t id = 0; id < kPlaces - 1; ++id) add_write(builder, id);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  word(0) = 0x5a;
  ibv_wr_start(builder);
  add_write(builder, 100);
  add_write(builder, 101);
  EXPECT_EQ(ibv_wr_complete(builder), ENOMEM);
  EXPECT_EQ(word(512), 0u) << "the first request ran";
  start();
  for (std::uint64_t id = 0; id < kPlaces - 1; ++id) {
    EXPECT_EQ(queue->wr_id, id);
    if (id + 1 < kPlaces - 1) next();
  }
  EXPECT_EQ(ibv_next_poll(queue), ENOENT) << "part of the refused list completed";
  ibv_end_poll(queue);
  ibv_wr_start(builder);  // Now all places are free.
  for (std::uint64_t id = 0; id < kPlaces; ++id) add_write(builder, id);
  EXPECT_EQ(ibv_wr_complete(builder), 0);
  EXPECT_EQ(word(512), 0x5au);
}

TEST_F(Extended, CompletionsCarryTheTimeOfTheDevicesClock) {
  ibv_values_ex clock{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};
  ASSERT_EQ(ibv_query_rt_values_ex(context, &clock), 0);
  const auto wall_before = std::chrono::system_clock::now().time_since_epoch();
  ibv_qp_ex* const pair = to_extended(pairs[0]);
  ibv_wr_start(pair);
  for (pair->wr_id = 1; pair->wr_id <= 2; ++pair->wr_id) {
    pair->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(pair, region->rkey, address(1024));
    ibv_wr_set_sge(pair, region->lkey, address(0), 8);
  }
  ASSERT_EQ(ibv_wr_complete(pair), 0);
  start();
  const std::uint64_t first = ibv_wc_read_completion_ts(queue);
  const std::uint64_t wall = ibv_wc_read_completion_wallclock_ns(queue);
  next();
  const std::uint64_t second = ibv_wc_read_completion_ts(queue);
  ibv_end_poll(queue);
  EXPECT_GE(first, static_cast<std::uint64_t>(clock.raw_clock.tv_nsec));
  EXPECT_LE(first, second);
  ASSERT_EQ(ibv_query_rt_values_ex(context, &clock), 0);
  EXPECT_LE(second, static_cast<std::uint64_t>(clock.raw_clock.tv_nsec));
  const auto since = std::chrono::nanoseconds{wall} - wall_before;
  EXPECT_GE(since, std::chrono::milliseconds{-1}) << "two clocks, asked one after the other";
  EXPECT_LE(since, std::chrono::minutes{1});
}

// From a start_poll that succeeds to end_poll, the completion belongs to one thread.
TEST_F(Extended, PollersOfOneQueueTakeTurns) {
  constexpr std::uint64_t kWrites = 5'000;
  std::vector<std::atomic<unsigned>> seen(kWrites);
  std::atomic<std::uint64_t> taken{0};
  const auto poll_all = [&] {
    ibv_poll_cq_attr none{};
    while (taken < kWrites) {
      if (ibv_start_poll(queue, &none) != 0) {
        std::this_thread::yield();
        continue;
      }
      do {
        std::this_thread::yield();  // The other thread polls now, if it can.
        if (queue->wr_id < kWrites) ++seen[queue->wr_id];
        ++taken;
      } while (ibv_next_poll(queue) == 0);
      ibv_end_poll(queue);
    }
  };
  std::thread one{poll_all};
  std::thread other{poll_all};
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  builder->wr_flags = IBV_SEND_SIGNALED;
  for (std::uint64_t id = 0; id < kWrites;) {
    ibv_wr_start(builder);
    add_write(builder, id);
    const int failed = ibv_wr_complete(builder);
    if (failed == 0) ++id;
    if (failed == ENOMEM) std::this_thread::yield();  // Until completions are polled.
  }
  one.join();
  other.join();
  EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& times) { return times == 1; }))
      << "a completion was read twice, or never";
}

TEST_F(Extended, PollHoldsTheQueueFromASuccessfulStartToItsEnd) {
  SpinLock& lock = CompletionQueue::of(ibv_cq_ex_to_cq(queue)).poll_lock;
  const auto is_free = [&] {
    const bool taken = lock.try_lock();
    if (taken) lock.unlock();
    return taken;
  };
  ibv_poll_cq_attr none{};
  EXPECT_EQ(ibv_start_poll(queue, &none), ENOENT);
  EXPECT_TRUE(is_free()) << "there was nothing to read";
  ibv_poll_cq_attr unknown{.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(queue, &unknown), EINVAL);
  EXPECT_TRUE(is_free()) << "the call was refused";
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(builder);
  add_write(builder, 1);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  start();
  EXPECT_FALSE(is_free());
  EXPECT_EQ(ibv_next_poll(queue), ENOENT);
  EXPECT_FALSE(is_free()) << "the program still has to call end_poll";
  ibv_end_poll(queue);
  EXPECT_TRUE(is_free());
}

TEST_F(Extended, QueueOfASingleThreadIsNotLocked) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 16;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  wanted.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* const single = ibv_create_cq_ex(context, &wanted);
  ASSERT_NE(single, nullptr);
  {
    const std::lock_guard held{CompletionQueue::of(ibv_cq_ex_to_cq(single)).poll_lock};
    ibv_poll_cq_attr none{};
    EXPECT_EQ(ibv_start_poll(single, &none), ENOENT);  // A lock would wait for ever.
  }
  EXPECT_EQ(destroy_completion_queue(ibv_cq_ex_to_cq(single)), 0);
}

/// What the child of a fork sees, one bit per broken promise.
unsigned refusals(ibv_cq_ex* queue, ibv_qp_ex* builder) {
  ibv_poll_cq_attr none{};
  unsigned broken = ibv_start_poll(queue, &none) != EOWNERDEAD;
  broken |= 2u * (ibv_next_poll(queue) != EOWNERDEAD);
  ibv_end_poll(queue);
  ibv_wr_start(builder);
  ibv_wr_rdma_write(builder, 0, 0);
  broken |= 4u * (ibv_wr_complete(builder) != EOWNERDEAD);
  ibv_wr_start(builder);
  ibv_wr_abort(builder);
  return broken;
}

TEST_F(Extended, ForkedChildIsRefused) {
  ibv_qp_ex* const other = to_extended(pairs[1]);
  other->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_start(other);
  add_write(other, 6);
  ASSERT_EQ(ibv_wr_complete(other), 0);
  start();
  ibv_qp_ex* const builder = to_extended(pairs[0]);
  ibv_wr_start(builder);  // The child inherits the open poll and the open list, and their locks.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // Whoever waits for these locks waits for ever.
    _exit(static_cast<int>(refusals(queue, builder)));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "one bit for each promise broken in the child";
  EXPECT_EQ(queue->wr_id, 6u);
  ibv_end_poll(queue);
  builder->wr_id = 7;
  builder->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(builder, region->rkey, address(512));
  ibv_wr_set_sge(builder, region->lkey, address(0), 8);
  ASSERT_EQ(ibv_wr_complete(builder), 0);
  start();
  EXPECT_EQ(queue->wr_id, 7u);
  ibv_end_poll(queue);
}

TEST_F(Extended, WhatIsUnknownIsRefused) {
  ibv_cq_init_attr_ex strange{};
  strange.cqe = 16;
  strange.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  EXPECT_EQ(ibv_create_cq_ex(context, &strange), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  strange.wc_flags = 0;
  strange.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  for (const std::uint32_t flags : {std::uint32_t{IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN}, 1u << 20,
                                    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | 1u << 31}) {
    strange.flags = flags;
    errno = 0;
    EXPECT_EQ(ibv_create_cq_ex(context, &strange), nullptr) << flags;
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  ibv_qp_init_attr_ex wanted = wanted_pair();
  wanted.send_ops_flags |= IBV_QP_EX_WITH_TSO;
  EXPECT_EQ(create_pair(&wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  wanted = wanted_pair();
  wanted.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  wanted.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
  EXPECT_EQ(create_pair(&wanted), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Extended, PlainQueuePairHasNoExtendedView) {
  ibv_qp_init_attr_ex wanted = wanted_pair();
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  ibv_qp* const plain = create_pair(&wanted);
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(to_extended(plain), nullptr);
  EXPECT_EQ(destroy_queue_pair(plain), 0);
}

}  // namespace
}  // namespace verbatim::engine
