// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a verb that gets no memory fails with ENOMEM, or works without it; it never ends the
//       process, and leaves nothing behind that cannot be destroyed.
// Method: one program through all verbs, from opening the device to closing it, again and again:
//         the first time its first allocation fails, then its second, until it needs no more. Each
//         run is a separate process. Then the same with all allocations from that one on.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "survival/contained.hpp"
#include "survival/failing_new.hpp"
#include "survival/process.hpp"
#include "verbatim/provider/soft.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// The verbs of a small program. What a step creates can be destroyed, whatever came after.
class Program {
 public:
  /// Returns 0, or the errno of the first verb that failed.
  [[nodiscard]] int run() {
    for (int (Program::* const step)() :
         {&Program::open, &Program::make_queues, &Program::make_memory, &Program::make_queue_pairs,
          &Program::connect, &Program::send})
      if (const int failed = (this->*step)()) return failed;
    return 0;
  }
  /// Whether the message arrived, if it was sent.
  [[nodiscard]] bool finish(std::chrono::nanoseconds patience) {
    if (!is_sent_) return true;
    return eventually(
        [&] {
          ibv_wc found{};
          if (context_->ops.poll_cq(queue_, 1, &found) == 1) ++completions_;
          return completions_ >= 2;
        },
        patience);
  }
  /// Returns 0, or the errno of the first verb that failed.
  [[nodiscard]] int destroy() {
    int failed = 0;
    const auto note = [&failed](int result) { failed = failed != 0 ? failed : result; };
    for (ibv_qp* const each : queue_pairs_)
      if (each != nullptr) note(soft_.destroy_qp(each));
    if (region_ != nullptr) note(soft_.dereg_mr(region_));
    if (memory_ != nullptr) note(soft_.free_memory(context_, memory_, kBytes));
    if (shared_ != nullptr) note(soft_.destroy_srq(shared_));
    if (queue_ != nullptr) note(soft_.destroy_cq(queue_));
    if (channel_ != nullptr) note(soft_.destroy_comp_channel(channel_));
    if (domain_ != nullptr) note(soft_.dealloc_pd(domain_));
    if (context_ != nullptr) note(soft_.close_device(context_));
    return failed;
  }

 private:
  static constexpr std::size_t kBytes = 4096;

  [[nodiscard]] static int result(const void* made) { return made != nullptr ? 0 : errno; }

  int open() {
    int count = 0;
    ibv_device** const list = soft_.get_device_list(&count);
    if (list == nullptr) return errno;
    context_ = soft_.open_device(list[0]);
    const int failed = result(context_);
    soft_.free_device_list(list);
    return failed;
  }
  int make_queues() {
    if (const int failed = result(domain_ = soft_.alloc_pd(context_))) return failed;
    if (const int failed = result(channel_ = soft_.create_comp_channel(context_))) return failed;
    if (const int failed = result(queue_ = soft_.create_cq(context_, 16, nullptr, channel_, 0)))
      return failed;
    if (const int failed = soft_.resize_cq(queue_, 64)) return failed;
    ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {16, 4, 0}};
    return result(shared_ = soft_.create_srq(domain_, &wanted));
  }
  int make_memory() {
    if (const int failed = result(memory_ = soft_.alloc_memory(context_, kBytes, HugePages::off)))
      return failed;
    return result(region_ = soft_.reg_mr(domain_, memory_, kBytes,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  }
  int make_queue_pairs() {
    for (ibv_qp*& each : queue_pairs_) {
      ibv_qp_init_attr wanted{};
      wanted.send_cq = wanted.recv_cq = queue_;
      wanted.srq = shared_;
      wanted.cap = {.max_send_wr = 8,
                    .max_recv_wr = 0,
                    .max_send_sge = 2,
                    .max_recv_sge = 2,
                    .max_inline_data = 64};
      wanted.qp_type = IBV_QPT_RC;
      wanted.sq_sig_all = 1;
      if (const int failed = result(each = soft_.create_qp(domain_, &wanted))) return failed;
    }
    return 0;
  }
  int connect() {
    for (int i = 0; i < 2; ++i) {
      ibv_qp_attr to{};
      to.qp_state = IBV_QPS_INIT;
      to.port_num = 1;
      to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (const int failed =
              soft_.modify_qp(queue_pairs_[i], &to,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        return failed;
      to.qp_state = IBV_QPS_RTR;
      to.path_mtu = IBV_MTU_1024;
      to.dest_qp_num = queue_pairs_[1 - i]->qp_num;
      to.max_dest_rd_atomic = 1;
      to.min_rnr_timer = 1;
      to.ah_attr.dlid = 1;
      to.ah_attr.port_num = 1;
      if (const int failed =
              soft_.modify_qp(queue_pairs_[i], &to,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return failed;
      to.qp_state = IBV_QPS_RTS;
      to.timeout = 14;
      to.retry_cnt = to.rnr_retry = 7;
      to.max_rd_atomic = 1;
      if (const int failed =
              soft_.modify_qp(queue_pairs_[i], &to,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
        return failed;
    }
    return 0;
  }
  /// Posts the message first and then the receive, so the message has to wait.
  int send() {
    ibv_sge element{reinterpret_cast<std::uintptr_t>(memory_), 64, region_->lkey};
    ibv_send_wr message{};
    message.sg_list = &element;
    message.num_sge = 1;
    message.opcode = IBV_WR_SEND;
    ibv_send_wr* bad_message = nullptr;
    if (const int failed = context_->ops.post_send(queue_pairs_[0], &message, &bad_message))
      return failed;
    ibv_recv_wr receive{.wr_id = 2, .next = nullptr, .sg_list = &element, .num_sge = 1};
    ibv_recv_wr* bad_receive = nullptr;
    const int failed = context_->ops.post_srq_recv(shared_, &receive, &bad_receive);
    is_sent_ = failed == 0;
    return failed;
  }

  const Provider& soft_ = soft_provider();
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_srq* shared_ = nullptr;
  void* memory_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_qp* queue_pairs_[2] = {};
  bool is_sent_ = false;
  unsigned completions_ = 0;
};

constexpr int kNeedsNoMore = 42;

/// Runs the program with this allocation failing. The exit status kNeedsNoMore means that it made
/// fewer.
void run_without(unsigned which, Failing how, const SoftDirectory& directory) {
  Program program;
  fail_allocation(which, how);
  const int failed = program.run();
  bool is_finished = program.finish(how == Failing::once ? 10s : 0s);
  if (how == Failing::from_then) {
    stop_failing();
    is_finished = program.finish(10s);
  }
  const int left = program.destroy();
  const unsigned count = stop_failing();
  EXPECT_TRUE(failed == 0 || failed == ENOMEM) << std::strerror(failed);
  EXPECT_TRUE(is_finished) << "a message that was accepted never completed";
  EXPECT_EQ(left, 0) << "an object could not be destroyed: " << std::strerror(left);
  EXPECT_TRUE(directory.is_gone()) << "files are left";
  if (!testing::Test::HasFailure() && count < which) std::_Exit(kNeedsNoMore);
}

/// Fails each allocation once; reports only the first bad ends.
void fail_each(Failing how) {
  constexpr unsigned kMost = 2000;
  unsigned bad = 0;
  std::string ends;
  unsigned which = 1;
  for (; which < kMost; ++which) {
    const SoftDirectory directory;  // Outside the child, which may die.
    const int status =
        status_within(start_contained([&] { run_without(which, how, directory); }), 30s);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNeedsNoMore) break;
    if (status == 0) continue;
    if (++bad <= 5) ends += "\n  allocation " + std::to_string(which) + ": " + describe_end(status);
    if (bad == 50) break;  // That is enough.
  }
  EXPECT_EQ(bad, 0u) << "of " << which << " allocations that failed" << ends;
  EXPECT_GT(which, 5u) << "allocations fail at all";
  EXPECT_LT(which, kMost);
}

TEST(NoMemory, AtOneMomentIsAnErrorAndNotTheEnd) { fail_each(Failing::once); }

TEST(NoMemory, FromOneMomentOnIsAnErrorAndNotTheEnd) { fail_each(Failing::from_then); }

}  // namespace
}  // namespace verbatim::test
