// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a local error stops only the send queue of an unreliable queue pair (SQE): what was sent
//       after it is flushed, receives go on, and the program can make it ready to send again.
// Method: one request with a wrong key, at once and in deferred mode; then messages both ways. Only
//         the software device is tested: the kernel's rxe goes to the error state instead.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "support/raw_verbs.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kPlace = 1024;

class SendQueueError : public testing::TestWithParam<std::tuple<ibv_qp_type, soft::Mode>> {
 protected:
  SendQueueError() {
    raw::connect(left.get(), right.get());
    soft::set_behaviour({.mode = std::get<1>(GetParam())});
  }
  ~SendQueueError() override { soft::set_behaviour({}); }

  [[nodiscard]] raw::Owned<ibv_qp> make(ibv_cq* receives) const {
    return raw::queue_pair({.domain = domain.get(),
                            .sends = sends.get(),
                            .receives = receives,
                            .type = std::get<0>(GetParam())});
  }
  [[nodiscard]] raw::Piece piece(std::size_t place) const {
    return raw::local(region.get(), place * kPlace, kPlace / 2);
  }
  /// Nothing that was registered.
  [[nodiscard]] raw::Piece wrong() const {
    raw::Piece made = piece(0);
    made.key ^= 0x7fff0000;
    return made;
  }
  void send(ibv_qp* from, const ibv_qp* to, std::uint64_t id, const raw::Piece& what) const {
    ASSERT_EQ(from->qp_type == IBV_QPT_UD
                  ? raw::post_datagram(from, id, what, handle.get(), to->qp_num)
                  : raw::post_send(from, id, what),
              0);
  }
  void expect(ibv_cq* queue, std::uint64_t id, ibv_wc_status status) const {
    const ibv_wc found = raw::poll_one(queue);
    EXPECT_EQ(found.wr_id, id);
    EXPECT_EQ(found.status, status);
  }
  [[nodiscard]] static ibv_qp_state state_of(ibv_qp* queue_pair) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    if (raw::verbs().query_qp(queue_pair, &attributes, IBV_QP_STATE, &init) != 0)
      return IBV_QPS_UNKNOWN;
    return attributes.qp_state;
  }

  raw::Owned<ibv_context> context = raw::open();
  raw::Owned<ibv_pd> domain = raw::domain(context.get());
  raw::Owned<ibv_cq> sends = raw::completion_queue(context.get());
  raw::Owned<ibv_cq> left_receives = raw::completion_queue(context.get());
  raw::Owned<ibv_cq> right_receives = raw::completion_queue(context.get());
  raw::Mapping memory{8 * kPlace};
  raw::Owned<ibv_mr> region = raw::region(domain.get(), memory.bytes());
  raw::Owned<ibv_qp> left = make(left_receives.get());
  raw::Owned<ibv_qp> right = make(right_receives.get());
  raw::Owned<ibv_ah> handle = raw::address_handle(domain.get(), raw::address_of(right.get()));
};

TEST_P(SendQueueError, FlushesWhatWasSentAfterwardsInOrder) {
  send(left.get(), right.get(), 1, wrong());
  for (std::uint64_t id = 2; id < 5; ++id) send(left.get(), right.get(), id, piece(0));
  expect(sends.get(), 1, IBV_WC_LOC_PROT_ERR);
  for (std::uint64_t id = 2; id < 5; ++id) expect(sends.get(), id, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(state_of(left.get()), IBV_QPS_SQE);
  send(left.get(), right.get(), 5, piece(0));
  expect(sends.get(), 5, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(SendQueueError, LetsReceivesGoOn) {
  ASSERT_EQ(raw::post_receive(left.get(), 10, raw::local(region.get(), kPlace, kPlace)), 0);
  send(left.get(), right.get(), 1, wrong());
  expect(sends.get(), 1, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(raw::post_receive(left.get(), 11, raw::local(region.get(), 2 * kPlace, kPlace)), 0);
  for (std::uint64_t id = 2; id < 4; ++id) {
    send(right.get(), left.get(), id, piece(0));
    expect(sends.get(), id, IBV_WC_SUCCESS);
    expect(left_receives.get(), 8 + id, IBV_WC_SUCCESS);
  }
}

TEST_P(SendQueueError, LetsReceivesGoOnAsDrainingDoes) {
  ibv_qp_attr drained{};
  drained.qp_state = IBV_QPS_SQD;
  ASSERT_EQ(raw::verbs().modify_qp(left.get(), &drained, IBV_QP_STATE), 0);
  ASSERT_EQ(raw::post_receive(left.get(), 10, raw::local(region.get(), kPlace, kPlace)), 0);
  send(right.get(), left.get(), 1, piece(0));
  expect(sends.get(), 1, IBV_WC_SUCCESS);
  expect(left_receives.get(), 10, IBV_WC_SUCCESS);
}

TEST_P(SendQueueError, EndsWhenTheProgramSaysSo) {
  send(left.get(), right.get(), 1, wrong());
  expect(sends.get(), 1, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(raw::change_state(left.get(), IBV_QPS_RTS), 0);
  ASSERT_EQ(raw::post_receive(right.get(), 10, raw::local(region.get(), kPlace, kPlace)), 0);
  send(left.get(), right.get(), 2, piece(0));
  expect(sends.get(), 2, IBV_WC_SUCCESS);
  expect(right_receives.get(), 10, IBV_WC_SUCCESS);
}

TEST_P(SendQueueError, MayBecomeTheErrorState) {
  ASSERT_EQ(raw::post_receive(left.get(), 10, raw::local(region.get(), kPlace, kPlace)), 0);
  send(left.get(), right.get(), 1, wrong());
  expect(sends.get(), 1, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(raw::change_state(left.get(), IBV_QPS_ERR), 0);
  expect(left_receives.get(), 10, IBV_WC_WR_FLUSH_ERR);
  EXPECT_NE(raw::change_state(left.get(), IBV_QPS_RTS), 0);
}

INSTANTIATE_TEST_SUITE_P(Each, SendQueueError,
                         testing::Combine(testing::Values(IBV_QPT_UC, IBV_QPT_UD),
                                          testing::Values(soft::Mode::immediate,
                                                          soft::Mode::deferred)),
                         [](const auto& each) {
                           return std::string{std::get<0>(each.param) == IBV_QPT_UC ? "Uc" : "Ud"} +
                                  (std::get<1>(each.param) == soft::Mode::deferred ? "Deferred"
                                                                                   : "Immediate");
                         });

}  // namespace
}  // namespace verbatim::test
