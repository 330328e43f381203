// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a verb that gets no memory fails with ENOMEM, or works without it; it never ends the
//       process, and leaves nothing behind that cannot be destroyed.
// Method: one program through all verbs, from opening the device to closing it, again and again:
//         the first time its first allocation fails, then its second, until it needs no more. Each
//         run is a separate process. Then the same with all allocations from that one on.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "soft/abi/extended_verbs.hpp"
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
          &Program::connect, &Program::query, &Program::send, &Program::send_datagram,
          &Program::take_event})
      if (const int failed = (this->*step)()) return failed;
    return 0;
  }
  /// Whether each message arrived that was sent.
  [[nodiscard]] bool finish(std::chrono::nanoseconds patience) {
    return eventually(
        [&] {
          if (completions_ == expected_) return true;
          ibv_wc found{};
          if (context_->ops.poll_cq(queue_, 1, &found) == 1) ++completions_;
          ibv_poll_cq_attr none{};
          if (ibv_start_poll(extended_queue_, &none) == 0) {
            ++completions_;
            ibv_end_poll(extended_queue_);
          }
          return completions_ == expected_;
        },
        patience);
  }
  /// Returns 0, or the errno of the first verb that failed.
  [[nodiscard]] int destroy() {
    int failed = 0;
    const auto note = [&failed](int result) { failed = failed != 0 ? failed : result; };
    for (ibv_qp* const each : queue_pairs_)
      if (each != nullptr) note(soft_.destroy_qp(each));
    if (handle_ != nullptr) note(soft_.destroy_ah(handle_));
    if (region_ != nullptr) note(soft_.dereg_mr(region_));
    if (memory_ != nullptr) note(soft_.free_memory(context_, memory_, kBytes));
    if (shared_ != nullptr) note(soft_.destroy_srq(shared_));
    if (queue_ != nullptr) note(soft_.destroy_cq(queue_));
    if (extended_queue_ != nullptr) note(soft_.destroy_cq(ibv_cq_ex_to_cq(extended_queue_)));
    if (channel_ != nullptr) note(soft_.destroy_comp_channel(channel_));
    if (domain_ != nullptr) note(soft_.dealloc_pd(domain_));
    if (context_ != nullptr) note(soft_.close_device(context_));
    return failed;
  }

 private:
  static constexpr std::size_t kBytes = 4096;
  static constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  static constexpr std::uint32_t kQueueKey = 7;
  enum Pair : unsigned { sender, receiver, datagrams, spare, kPairs };

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
    ibv_cq_init_attr_ex extended{};
    extended.cqe = 16;
    extended.channel = channel_;
    extended.wc_flags = IBV_WC_STANDARD_FLAGS;
    if (const int failed = result(extended_queue_ = ibv_create_cq_ex(context_, &extended)))
      return failed;
    ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {16, 4, 0}};
    return result(shared_ = soft_.create_srq(domain_, &wanted));
  }
  int make_memory() {
    if (const int failed = result(memory_ = soft_.alloc_memory(context_, kBytes, HugePages::off)))
      return failed;
    if (const int failed =
            result(region_ = soft_.reg_mr(domain_, memory_, kBytes, IBV_ACCESS_LOCAL_WRITE)))
      return failed;
    return soft_.rereg_mr(region_, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
                          nullptr, memory_, kBytes, kAccess) == 0
               ? 0
               : errno;
  }
  /// Its requests are built call by call.
  [[nodiscard]] ibv_qp* make_sender(ibv_qp_init_attr_ex wanted) const {
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = domain_;
    wanted.send_ops_flags = IBV_QP_EX_WITH_SEND;
    return verbs_get_ctx(context_)->create_qp_ex(context_, &wanted);
  }
  int make_queue_pairs() {
    const ibv_qp_cap limits{.max_send_wr = 8,
                            .max_recv_wr = 8,
                            .max_send_sge = 2,
                            .max_recv_sge = 2,
                            .max_inline_data = 64};
    ibv_qp_init_attr_ex extended{};
    extended.send_cq = extended.recv_cq = queue_;
    extended.srq = shared_;
    extended.cap = limits;
    extended.qp_type = IBV_QPT_RC;
    extended.sq_sig_all = 1;
    if (const int failed = result(queue_pairs_[sender] = make_sender(extended))) return failed;
    for (const Pair each : {receiver, datagrams, spare}) {
      ibv_qp_init_attr wanted{};
      wanted.send_cq = wanted.recv_cq =
          each == datagrams ? ibv_cq_ex_to_cq(extended_queue_) : queue_;
      wanted.srq = each == datagrams ? nullptr : shared_;
      wanted.cap = limits;
      wanted.qp_type = each == datagrams ? IBV_QPT_UD : IBV_QPT_RC;
      wanted.sq_sig_all = 1;
      if (const int failed = result(queue_pairs_[each] = soft_.create_qp(domain_, &wanted)))
        return failed;
    }
    return 0;
  }
  int initialize(ibv_qp* connected) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = kAccess;
    return soft_.modify_qp(connected, &to,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int connect() {
    for (int i = 0; i < 2; ++i) {
      if (const int failed = initialize(queue_pairs_[i])) return failed;
      ibv_qp_attr to{};
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
    return connect_datagrams();
  }
  int connect_datagrams() {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qkey = kQueueKey;
    if (const int failed =
            soft_.modify_qp(queue_pairs_[datagrams], &to,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
      return failed;
    to.qp_state = IBV_QPS_RTR;
    if (const int failed = soft_.modify_qp(queue_pairs_[datagrams], &to, IBV_QP_STATE))
      return failed;
    to.qp_state = IBV_QPS_RTS;
    if (const int failed =
            soft_.modify_qp(queue_pairs_[datagrams], &to, IBV_QP_STATE | IBV_QP_SQ_PSN))
      return failed;
    ibv_ah_attr here{};
    here.dlid = 1;
    here.port_num = 1;
    return result(handle_ = soft_.create_ah(domain_, &here));
  }
  int query() {
    ibv_device_attr_ex device{};
    if (const int failed = soft_.query_device(context_, &device)) return failed;
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    return soft_.query_qp(queue_pairs_[sender], &attributes, IBV_QP_STATE, &init);
  }
  [[nodiscard]] ibv_sge element() const {
    return {reinterpret_cast<std::uintptr_t>(memory_), 128, region_->lkey};
  }
  /// Posts the message first and then the receive, so the message has to wait.
  int send() {
    ibv_qp_ex* const builder = engine::to_extended(queue_pairs_[sender]);
    ibv_wr_start(builder);
    builder->wr_id = 1;
    builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(builder);
    ibv_wr_set_sge(builder, region_->lkey, reinterpret_cast<std::uintptr_t>(memory_), 64);
    if (const int failed = ibv_wr_complete(builder)) return failed;
    ibv_sge place = element();
    ibv_recv_wr receive{.wr_id = 2, .next = nullptr, .sg_list = &place, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    const int failed = context_->ops.post_srq_recv(shared_, &receive, &bad);
    if (failed == 0) expected_ += 2;
    return failed;
  }
  int send_datagram() {
    ibv_sge place = element();
    ibv_recv_wr receive{.wr_id = 2, .next = nullptr, .sg_list = &place, .num_sge = 1};
    ibv_recv_wr* bad_receive = nullptr;
    if (const int failed = context_->ops.post_recv(queue_pairs_[datagrams], &receive, &bad_receive))
      return failed;
    ibv_sge text = element();
    text.length = 64;
    ibv_send_wr message{};
    message.sg_list = &text;
    message.num_sge = 1;
    message.opcode = IBV_WR_SEND;
    message.wr.ud = {handle_, queue_pairs_[datagrams]->qp_num, kQueueKey};
    ibv_send_wr* bad_message = nullptr;
    const int failed = context_->ops.post_send(queue_pairs_[datagrams], &message, &bad_message);
    if (failed == 0) expected_ += 2;
    return failed;
  }
  /// A queue pair with shared receives that fails raises an event. It is lost if there is no
  /// memory.
  int take_event() {
    if (const int failed = initialize(queue_pairs_[spare])) return failed;
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    if (const int failed = soft_.modify_qp(queue_pairs_[spare], &to, IBV_QP_STATE)) return failed;
    fcntl(context_->async_fd, F_SETFL, O_NONBLOCK);
    ibv_async_event event{};
    if (soft_.get_async_event(context_, &event) != 0) return errno == EAGAIN ? ENOMEM : errno;
    soft_.ack_async_event(&event);
    return 0;
  }

  const Provider& soft_ = soft_provider();
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_cq_ex* extended_queue_ = nullptr;
  ibv_srq* shared_ = nullptr;
  void* memory_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_ah* handle_ = nullptr;
  ibv_qp* queue_pairs_[kPairs] = {};
  unsigned expected_ = 0;  // Completions.
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
