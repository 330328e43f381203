// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair goes through its states with exactly the attributes that were agreed on, can
//       be broken, reset and reconnected, and a wrong step leaves it unchanged.
// Method: the null provider records every ibv_modify_qp; the peer is the queue pair itself, or an
//         endpoint made by hand.
#include "verbatim/verbs/queue_pair.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

static_assert(!std::is_copy_constructible_v<QueuePair>);
static_assert(!std::is_copy_constructible_v<PreparedQueuePair>);

constexpr unsigned kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr unsigned kPeer = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

class QueuePairTest : public NullDevice {
 protected:
  void use_ethernet() {
    knobs.port.link_layer = IBV_LINK_LAYER_ETHERNET;
    knobs.port.lid = 0;
    knobs.gids[0].gid.raw[0] = 0;
    knobs.gids[0].gid.raw[1] = 0;
    knobs.gids[0].gid.raw[10] = knobs.gids[0].gid.raw[11] = 0xff;
    knobs.gids[0].gid.raw[12] = 10;  // ::ffff:10.0.0.1
    knobs.gids[0].gid_index = 3;
    knobs.gids[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  }
  const std::vector<Modification>& steps = note_modifications(table);
};

// ---- To RTS

TEST_F(QueuePairTest, DefaultsReachTheDevice) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  const Endpoint self = prepared.endpoint();
  ASSERT_EQ(steps.size(), 1u);
  const QueuePair queue_pair = require(std::move(prepared).connect(self));
  ASSERT_EQ(steps.size(), 3u);

  const auto& [init, init_mask] = steps[0];
  EXPECT_EQ(init_mask, kInit | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(init.port_num, 1);
  EXPECT_EQ(init.pkey_index, 0);
  EXPECT_EQ(init.qp_access_flags, kRemoteAccess.bits);

  const auto& [receive, receive_mask] = steps[1];
  EXPECT_EQ(receive_mask, IBV_QP_STATE | kPeer | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(receive.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(receive.path_mtu, IBV_MTU_4096);
  EXPECT_EQ(receive.dest_qp_num, std::to_underlying(queue_pair.number()));
  EXPECT_EQ(receive.rq_psn, self.psn.value());
  EXPECT_EQ(receive.max_dest_rd_atomic, 16);
  EXPECT_EQ(receive.min_rnr_timer, 12);  // 0.64 ms
  EXPECT_EQ(receive.ah_attr.dlid, 1);
  EXPECT_EQ(receive.ah_attr.port_num, 1);
  EXPECT_EQ(receive.ah_attr.sl, 0);
  EXPECT_EQ(receive.ah_attr.is_global, 0);

  const auto& [send, send_mask] = steps[2];
  EXPECT_EQ(send_mask, unsigned{IBV_QP_STATE} | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(send.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(send.sq_psn, self.psn.value());
  EXPECT_EQ(send.timeout, 14);
  EXPECT_EQ(send.retry_cnt, 7);
  EXPECT_EQ(send.rnr_retry, 7);  // Unlimited.
  EXPECT_EQ(send.max_rd_atomic, 16);
  EXPECT_EQ(require(queue_pair.query_state()), QueuePairState::ready_to_send);
}

TEST_F(QueuePairTest, ChoicesReachTheDevice) {
  knobs.device.phys_port_cnt = 2;
  knobs.port.pkey_tbl_len = 2;
  knobs.partition_keys = {0xffff, 0x8002};
  const Bench bench(open());
  const QueuePair queue_pair = bench.connected([](QueuePairOptions& options) {
    options.access = Access::remote_read;
    options.mtu = MaximumTransferUnit::bytes_1024;
    options.max_read_atomic = 5;
    options.psn = require(PacketSequenceNumber::from_value(0xabcdef));
    options.ack_timeout = require(AckTimeout::limited(20));
    options.max_ack_retries = require(MaxAckRetries::limited(3));
    options.max_rnr_retries = require(MaxRnrRetries::limited(2));
    options.min_rnr_timer = require(MinRnrTimer::from_code(31));
    options.route.port = 2;
    options.route.partition_key = PartitionKey{0x8002};
    options.route.service_level = 9;
  });
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].attributes.port_num, 2);
  EXPECT_EQ(steps[0].attributes.pkey_index, 1);
  EXPECT_EQ(steps[0].attributes.qp_access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(steps[1].attributes.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(steps[1].attributes.rq_psn, 0xabcdefu);
  EXPECT_EQ(steps[1].attributes.max_dest_rd_atomic, 5);
  EXPECT_EQ(steps[1].attributes.min_rnr_timer, 31);
  EXPECT_EQ(steps[1].attributes.ah_attr.sl, 9);
  EXPECT_EQ(steps[1].attributes.ah_attr.port_num, 2);
  EXPECT_EQ(steps[2].attributes.sq_psn, 0xabcdefu);
  EXPECT_EQ(steps[2].attributes.timeout, 20);
  EXPECT_EQ(steps[2].attributes.retry_cnt, 3);
  EXPECT_EQ(steps[2].attributes.rnr_retry, 2);
  EXPECT_EQ(steps[2].attributes.max_rd_atomic, 5);
}

TEST_F(QueuePairTest, OnEthernetPacketsHaveAGlobalHeader) {
  use_ethernet();
  const Bench bench(open());
  const QueuePair queue_pair = bench.connected([](QueuePairOptions& options) {
    options.route.traffic_class = 106;
    options.route.flow_label = 0xabcde;
    options.route.hop_limit = 3;
  });
  const ibv_ah_attr& path = steps.at(1).attributes.ah_attr;
  EXPECT_EQ(path.is_global, 1);
  EXPECT_EQ(path.dlid, 0);
  EXPECT_EQ(path.grh.sgid_index, 3);
  EXPECT_EQ(path.grh.traffic_class, 106);
  EXPECT_EQ(path.grh.flow_label, 0xabcdeu);
  EXPECT_EQ(path.grh.hop_limit, 3);
  EXPECT_EQ(path.grh.dgid.raw[12], 10);
  EXPECT_EQ(path.grh.dgid.raw[15], 1);
}

TEST_F(QueuePairTest, TakesFromThePeerWhatIsThePeers) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  Endpoint peer = prepared.endpoint();
  peer.nonce = 99;
  peer.lid = Lid{0x42};
  peer.queue_pair = QpNumber{0x123456};
  peer.psn = require(PacketSequenceNumber::from_value(77));
  peer.mtu = MaximumTransferUnit::bytes_512;
  peer.read_atomic_initiator = 2;
  peer.read_atomic_responder = 3;
  peer.max_message_bytes = 5000;
  peer.ack_timeout = require(AckTimeout::limited(18));
  const QueuePair queue_pair = require(std::move(prepared).connect(peer));
  EXPECT_EQ(steps[1].attributes.dest_qp_num, 0x123456u);
  EXPECT_EQ(steps[1].attributes.rq_psn, 77u);
  EXPECT_EQ(steps[1].attributes.path_mtu, IBV_MTU_512);
  EXPECT_EQ(steps[1].attributes.max_dest_rd_atomic, 2);
  EXPECT_EQ(steps[1].attributes.ah_attr.dlid, 0x42);
  EXPECT_EQ(steps[2].attributes.max_rd_atomic, 3);
  EXPECT_EQ(steps[2].attributes.timeout, 18);
  EXPECT_EQ(queue_pair.limits().max_message_bytes, 5000u);
  EXPECT_EQ(queue_pair.agreement().remote_nonce, 99u);
  EXPECT_EQ(queue_pair.agreement().remote_queue_pair, QpNumber{0x123456});
}

TEST_F(QueuePairTest, UnreliableConnectionHasNoRetries) {
  const Bench bench(open());
  const QueuePair queue_pair = bench.connected(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_connection; });
  EXPECT_EQ(queue_pair.type(), QueuePairType::unreliable_connection);
  EXPECT_EQ(steps.at(0).mask, kInit | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(steps.at(1).mask, IBV_QP_STATE | kPeer);
  EXPECT_EQ(steps.at(2).mask, unsigned{IBV_QP_STATE} | IBV_QP_SQ_PSN);
}

TEST_F(QueuePairTest, DatagramHasAKeyAndNoPeer) {
  const Bench bench(open());
  auto prepared = require(bench.prepare([](QueuePairOptions& options) {
    options.type = QueuePairType::unreliable_datagram;
    options.queue_key = QueueKey{0xfeed};
  }));
  const QueuePair queue_pair = require(std::move(prepared).activate());
  EXPECT_EQ(steps.at(0).mask, kInit | IBV_QP_QKEY);
  EXPECT_EQ(steps.at(0).attributes.qkey, 0xfeedu);
  EXPECT_EQ(steps.at(1).mask, unsigned{IBV_QP_STATE});
  EXPECT_EQ(steps.at(2).mask, unsigned{IBV_QP_STATE} | IBV_QP_SQ_PSN);
  EXPECT_EQ(queue_pair.endpoint().queue_key, QueueKey{0xfeed});
  EXPECT_EQ(queue_pair.agreement().max_read_atomic, 0);
}

// ---- Wrong steps

TEST_F(QueuePairTest, IncompatiblePeerLeavesItPrepared) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  const Endpoint self = prepared.endpoint();
  Endpoint other = self;
  other.partition_key = PartitionKey{0x8001};
  other.max_message_bytes = 1;
  const auto refused = std::move(prepared).connect(other);
  EXPECT_TRUE(fails_naming(refused, Errc::incompatible, "partition_key",
                           {.value = 0xffff, .limit = 0x8001}));
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_EQ(prepared.endpoint(), self);
  const QueuePair queue_pair = require(std::move(prepared).connect(self));
  EXPECT_EQ(queue_pair.limits().max_message_bytes, 1u << 31);
}

TEST_F(QueuePairTest, DatagramsAreNotConnected) {
  const Bench bench(open());
  auto prepared = require(bench.prepare(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_datagram; }));
  const Endpoint self = prepared.endpoint();
  EXPECT_TRUE(fails_naming(std::move(prepared).connect(self), Errc::invalid_argument, "activate()",
                           {.value = IBV_QPT_UD}));
  EXPECT_TRUE(succeeds(std::move(prepared).activate()));
}

TEST_F(QueuePairTest, ConnectionsAreNotActivated) {
  const Bench bench(open());
  for (const auto type :
       {QueuePairType::reliable_connection, QueuePairType::unreliable_connection}) {
    auto prepared = require(bench.prepare([&](QueuePairOptions& options) { options.type = type; }));
    EXPECT_TRUE(fails_naming(std::move(prepared).activate(), Errc::invalid_argument, "connect()",
                             {.value = std::to_underlying(type)}));
  }
}

ibv_qp_state refused_state = IBV_QPS_RESET;

TEST_F(QueuePairTest, AStateThatTheDeviceRefusesIsNamed) {
  table.modify_qp = [](ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
    if (attributes->qp_state == refused_state) return EINVAL;
    return verbatim_null_provider()->modify_qp(queue_pair, attributes, mask);
  };
  const Bench bench(open());
  for (const auto& [state, name] : {std::pair{IBV_QPS_RTR, "RTR"}, std::pair{IBV_QPS_RTS, "RTS"}}) {
    refused_state = state;
    auto prepared = require(bench.prepare());
    const Endpoint self = prepared.endpoint();
    const auto connected = std::move(prepared).connect(self);
    ASSERT_TRUE(fails_with(connected, Errc::invalid_argument));
    EXPECT_EQ(connected.error().text_view(), name);
    EXPECT_EQ(connected.error().os_error, EINVAL);
  }
}

// ---- Breaking, resetting, asking

TEST_F(QueuePairTest, MovedToErrorFlushesWhatIsPosted) {
  Bench bench(open());
  QueuePair queue_pair = bench.connected();
  require(queue_pair.move_to_error());
  EXPECT_EQ(steps.back().mask, unsigned{IBV_QP_STATE});
  EXPECT_EQ(require(queue_pair.query_state()), QueuePairState::error);
  require(queue_pair.move_to_error());  // Again is fine.
  require(unsafe::post(queue_pair, send_immediate(1), WrId{4}));
  std::array<Completion, 1> completions;
  ASSERT_EQ(require(bench.queue.poll(completions)), 1u);
  EXPECT_EQ(completions[0].status(), WorkStatus::flushed);
}

TEST_F(QueuePairTest, ResetStartsAnewUnderTheSameNumber) {
  const Bench bench(open());
  QueuePair queue_pair = bench.connected();
  const Endpoint before = queue_pair.endpoint();
  auto prepared = require(std::move(queue_pair).reset());
  EXPECT_EQ(prepared.number(), before.queue_pair);
  EXPECT_NE(prepared.endpoint().nonce, before.nonce);
  EXPECT_NE(prepared.endpoint().psn, before.psn);  // Fails once in 16 million runs.
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[3].attributes.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(steps[3].mask, unsigned{IBV_QP_STATE});
  EXPECT_EQ(steps[4].attributes.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(steps[4].mask, kInit | IBV_QP_ACCESS_FLAGS);
  const QueuePair again = loop_back(std::move(prepared));
  EXPECT_EQ(require(again.query_state()), QueuePairState::ready_to_send);
  EXPECT_EQ(bench.queue.reserved(), 256u);
}

TEST_F(QueuePairTest, ResetAfterAnErrorWorks) {
  const Bench bench(open());
  QueuePair queue_pair = bench.connected();
  require(queue_pair.move_to_error());
  const QueuePair again = loop_back(require(std::move(queue_pair).reset()));
  EXPECT_EQ(require(again.query_state()), QueuePairState::ready_to_send);
}

TEST_F(QueuePairTest, ResetForgetsTheFormerPeer) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  Endpoint small = prepared.endpoint();
  small.max_message_bytes = 1000;
  small.read_atomic_responder = 0;
  small.atomics = false;
  QueuePair queue_pair = require(std::move(prepared).connect(small));
  EXPECT_EQ(queue_pair.limits().max_message_bytes, 1000u);
  auto again = require(std::move(queue_pair).reset());
  EXPECT_EQ(again.limits().max_message_bytes, 1u << 31);
  EXPECT_EQ(again.endpoint().max_message_bytes, 1u << 31);
  const QueuePair connected = loop_back(std::move(again));
  EXPECT_EQ(connected.limits().max_message_bytes, 1u << 31);
  EXPECT_EQ(connected.agreement().max_read_atomic, 16);
}

TEST_F(QueuePairTest, ResetKeepsASequenceNumberThatWasChosen) {
  const Bench bench(open());
  const auto psn = require(PacketSequenceNumber::from_value(5));
  QueuePair queue_pair = bench.connected([&](QueuePairOptions& options) { options.psn = psn; });
  EXPECT_EQ(require(std::move(queue_pair).reset()).endpoint().psn, psn);
}

TEST_F(QueuePairTest, ResetThatFailsLeavesTheQueuePair) {
  table.modify_qp = [](ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
    if (attributes->qp_state == IBV_QPS_RESET) return EBUSY;
    return verbatim_null_provider()->modify_qp(queue_pair, attributes, mask);
  };
  const Bench bench(open());
  QueuePair queue_pair = bench.connected();
  const auto prepared = std::move(queue_pair).reset();
  ASSERT_TRUE(fails_with(prepared, Errc::busy));
  EXPECT_EQ(prepared.error().text_view(), "RESET");
  EXPECT_EQ(require(queue_pair.query_state()), QueuePairState::ready_to_send);
}

TEST_F(QueuePairTest, StateThatCannotBeAskedKeepsTheErrno) {
  table.query_qp = [](ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) { return ENODEV; };
  const QueuePair queue_pair = Bench(open()).connected();
  const auto state = queue_pair.query_state();
  ASSERT_TRUE(fails_with(state, Errc::device_failed));
  EXPECT_EQ(state.error().os_error, ENODEV);
}

TEST_F(QueuePairTest, TellsWhetherWritesArriveInOrder) {
  EXPECT_FALSE(Bench(open()).connected().writes_in_order());
  table.query_qp_data_in_order = [](ibv_qp*, ibv_wr_opcode opcode, std::uint32_t) {
    return opcode == IBV_WR_RDMA_WRITE ? 1 : 0;
  };
  EXPECT_TRUE(Bench(open()).connected().writes_in_order());
}

// ---- Raw changes of state

TEST_F(QueuePairTest, RawModifyNamesWhatIsMissing) {
  QueuePair queue_pair = Bench(open()).connected();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  require(unsafe::modify(queue_pair, attributes, IBV_QP_STATE));
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  const auto modified = unsafe::modify(queue_pair, attributes,
                                       (kInit | IBV_QP_ACCESS_FLAGS) & ~unsigned{IBV_QP_PORT});
  EXPECT_TRUE(
      fails_naming(modified, Errc::invalid_argument, "IBV_QP_PORT", {.value = IBV_QP_PORT}));
  EXPECT_NE(modified.error().text_view().find("RESET -> INIT"), std::string_view::npos);
  require(unsafe::modify(queue_pair, attributes, kInit | IBV_QP_ACCESS_FLAGS));
  EXPECT_EQ(require(queue_pair.query_state()), QueuePairState::initialized);
}

TEST_F(QueuePairTest, RawModifyNamesWhatDoesNotBelong) {
  QueuePair queue_pair = Bench(open()).connected();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  EXPECT_TRUE(fails_naming(unsafe::modify(queue_pair, attributes, IBV_QP_STATE | IBV_QP_DEST_QPN),
                           Errc::invalid_argument, "IBV_QP_DEST_QPN", {.value = IBV_QP_DEST_QPN}));
  attributes.qp_state = IBV_QPS_RTR;
  EXPECT_TRUE(fails_naming(unsafe::modify(queue_pair, attributes, IBV_QP_STATE),
                           Errc::invalid_argument, "state",
                           {.value = IBV_QPS_RTS, .limit = IBV_QPS_RTR}));
  EXPECT_EQ(require(queue_pair.query_state()), QueuePairState::ready_to_send);
}

// ---- Ownership

TEST_F(QueuePairTest, TellsWhatItIs) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  char number[16];
  std::snprintf(number, sizeof number, "0x%06x", std::to_underlying(prepared.number()));
  const std::string name = std::string{"RC queue pair "} + number + " on null0 port 1";
  EXPECT_EQ(to_string(prepared), name + ", not connected");
  QueuePair queue_pair = loop_back(std::move(prepared));
  EXPECT_EQ(to_string(queue_pair), name + ", to " + number);
  EXPECT_EQ(to_string(prepared),
            "queue pair, moved from");  // NOLINT(bugprone-use-after-move): the point
  require(queue_pair.destroy());
  EXPECT_EQ(to_string(queue_pair), name + ", destroyed");
}

TEST_F(QueuePairTest, DatagramTellsNoPeer) {
  const Bench bench(open());
  const QueuePair queue_pair = require(require(bench.prepare([](QueuePairOptions& options) {
                                         options.type = QueuePairType::unreliable_datagram;
                                       })).activate());
  EXPECT_TRUE(to_string(queue_pair).starts_with("UD queue pair 0x")) << to_string(queue_pair);
  EXPECT_TRUE(to_string(queue_pair).ends_with(" on null0 port 1")) << to_string(queue_pair);
}

TEST_F(QueuePairTest, MovesWithAllItKnows) {
  const Bench bench(open());
  QueuePair from = bench.connected();
  const QpNumber number = from.number();
  QueuePair to = std::move(from);
  EXPECT_EQ(to.number(), number);
  EXPECT_EQ(to.limits().max_send_requests, 128u);
  EXPECT_EQ(to.domain(), bench.domain);
  EXPECT_TRUE(succeeds(unsafe::post(to, send_immediate(1), WrId{1})));
}

TEST_F(QueuePairTest, TakesTheOtherAndDestroysItsOwn) {
  const Bench bench(open());
  QueuePair kept = bench.connected();
  const int before = live();
  QueuePair other = bench.connected([](QueuePairOptions& options) {
    options.max_send_requests = 3;
    options.max_read_atomic = 0;
  });
  const QpNumber number = other.number();
  kept = std::move(other);
  EXPECT_EQ(live(), before);
  EXPECT_EQ(kept.number(), number);
  EXPECT_EQ(kept.limits().max_send_requests, 3u);
  EXPECT_EQ(kept.agreement().max_read_atomic, 0);
  EXPECT_EQ(bench.queue.reserved(), 131u);
}

TEST_F(QueuePairTest, PreparedTakesTheOtherAndDestroysItsOwn) {
  const Bench bench(open());
  auto kept = require(bench.prepare());
  const int before = live();
  auto other = require(bench.prepare());
  const QpNumber number = other.number();
  kept = std::move(other);
  EXPECT_EQ(live(), before);
  EXPECT_EQ(kept.number(), number);
}

TEST_F(QueuePairTest, ConnectingConsumesNothingButThePrepared) {
  const Bench bench(open());
  auto prepared = require(bench.prepare());
  const int before = live();
  const QueuePair queue_pair = loop_back(std::move(prepared));
  EXPECT_EQ(live(), before);
}

}  // namespace
}  // namespace verbatim::test
