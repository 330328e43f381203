// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a default fits the device, a request that does not fit is refused with name and numbers,
//       and a queue pair that could not be finished is not left behind.
// Method: the null provider with small or strange limits; the test records what it has to create.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string_view>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

class QueuePairCreateTest : public NullDevice {
 protected:
  QueuePairCreateTest() {
    created = {};
    creations = 0;
    table.create_qp = [](ibv_pd* domain, ibv_qp_init_attr* init) {
      created = *init;
      ++creations;
      return verbatim_null_provider()->create_qp(domain, init);
    };
  }
  static inline ibv_qp_init_attr created{};  ///< As requested.
  static inline int creations = 0;
};

// ---- Limits

TEST_F(QueuePairCreateTest, DefaultsAreModest) {
  const Bench bench(open());
  const auto prepared = require(bench.prepare());
  const QueuePairLimits& limits = prepared.limits();
  EXPECT_EQ(limits.max_send_requests, 128u);
  EXPECT_EQ(limits.max_receive_requests, 128u);
  EXPECT_EQ(limits.max_send_elements, 4u);
  EXPECT_EQ(limits.max_receive_elements, 4u);
  EXPECT_EQ(limits.max_inline_bytes, 64u);
  EXPECT_EQ(limits.max_message_bytes, 1u << 31);
  EXPECT_EQ(created.qp_type, IBV_QPT_RC);
  EXPECT_EQ(created.sq_sig_all, 0);
  EXPECT_EQ(created.srq, nullptr);
  EXPECT_EQ(created.send_cq, unsafe::native(bench.queue));
  EXPECT_EQ(created.recv_cq, unsafe::native(bench.queue));
}

TEST_F(QueuePairCreateTest, DefaultsShrinkToTheDevice) {
  knobs.device.max_qp_wr = 50;
  knobs.device.max_sge = 2;
  knobs.device.max_qp_init_rd_atom = 3;
  knobs.device.max_qp_rd_atom = 5;
  const Bench bench(open());
  const auto prepared = require(bench.prepare());
  EXPECT_EQ(prepared.limits().max_send_requests, 50u);
  EXPECT_EQ(prepared.limits().max_receive_requests, 50u);
  EXPECT_EQ(prepared.limits().max_send_elements, 2u);
  EXPECT_EQ(prepared.limits().max_receive_elements, 2u);
  EXPECT_EQ(prepared.endpoint().read_atomic_initiator, 3);
  EXPECT_EQ(prepared.endpoint().read_atomic_responder, 5);
}

TEST_F(QueuePairCreateTest, WishesReachTheDevice) {
  const Bench bench(open());
  const auto prepared = require(bench.prepare([](QueuePairOptions& options) {
    options.max_send_requests = 10;
    options.max_receive_requests = 20;
    options.max_send_elements = 3;
    options.max_receive_elements = 5;
    options.max_inline_bytes = 100;
    options.max_read_atomic = 7;
  }));
  EXPECT_EQ(created.cap.max_send_wr, 10u);
  EXPECT_EQ(created.cap.max_recv_wr, 20u);
  EXPECT_EQ(created.cap.max_send_sge, 3u);
  EXPECT_EQ(created.cap.max_recv_sge, 5u);
  EXPECT_EQ(created.cap.max_inline_data, 100u);
  EXPECT_EQ(prepared.limits().max_inline_bytes, 100u);
  EXPECT_EQ(prepared.endpoint().read_atomic_initiator, 7);
  EXPECT_EQ(prepared.endpoint().read_atomic_responder, 7);
}

TEST_F(QueuePairCreateTest, LimitsAreWhatTheDeviceMade) {
  knobs.extra_depth = 6;
  const Bench bench(open());
  const auto prepared = require(bench.prepare([](QueuePairOptions& options) {
    options.max_send_requests = 10;
    options.max_receive_requests = 20;
  }));
  EXPECT_EQ(prepared.limits().max_send_requests, 16u);
  EXPECT_EQ(prepared.limits().max_receive_requests, 26u);
  const QueuePair connected = loop_back(require(bench.prepare()));
  EXPECT_EQ(connected.limits().max_send_requests, 134u);
}

struct TooMuch {
  const char* field;
  std::uint64_t value;
  std::uint64_t limit;
  void (*ask)(QueuePairOptions&);
};
void PrintTo(const TooMuch& row, std::ostream* out) { *out << row.field; }

class TooMuchTest : public QueuePairCreateTest, public testing::WithParamInterface<TooMuch> {};

TEST_P(TooMuchTest, IsRefusedWithFieldValueAndLimit) {
  knobs.device.max_qp_wr = 100;
  knobs.device.max_sge = 10;
  knobs.device.max_qp_init_rd_atom = 8;
  knobs.device.max_qp_rd_atom = 6;
  const Bench bench(open());
  const int before = live();
  EXPECT_TRUE(fails_naming(bench.prepare(GetParam().ask), Errc::limit_exceeded, GetParam().field,
                           {.value = GetParam().value, .limit = GetParam().limit}));
  EXPECT_EQ(live(), before);
  EXPECT_EQ(bench.queue.reserved(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Options, TooMuchTest,
    testing::Values(TooMuch{"max_send_requests", 101, 100,
                            [](QueuePairOptions& options) { options.max_send_requests = 101; }},
                    TooMuch{"max_receive_requests", 101, 100,
                            [](QueuePairOptions& options) { options.max_receive_requests = 101; }},
                    TooMuch{"max_send_elements", 11, 10,
                            [](QueuePairOptions& options) { options.max_send_elements = 11; }},
                    TooMuch{"max_receive_elements", 11, 10,
                            [](QueuePairOptions& options) { options.max_receive_elements = 11; }},
                    TooMuch{"max_read_atomic", 9, 8,
                            [](QueuePairOptions& options) { options.max_read_atomic = 9; }},
                    TooMuch{"max_read_atomic", 7, 6,
                            [](QueuePairOptions& options) { options.max_read_atomic = 7; }}));

// ---- Inline data: no query returns how much a device accepts

TEST_F(QueuePairCreateTest, WithoutInlineTheDefaultGoesWithout) {
  knobs.max_inline_bytes = 0;
  const Bench bench(open());
  const auto prepared = require(bench.prepare());
  EXPECT_EQ(prepared.limits().max_inline_bytes, 0u);
  EXPECT_EQ(prepared.limits().max_send_requests, 128u);
  EXPECT_EQ(creations, 2);
}

TEST_F(QueuePairCreateTest, TooMuchInlineThatWasAskedForIsRefused) {
  const Bench bench(open());
  const int before = live();
  const auto prepared =
      bench.prepare([](QueuePairOptions& options) { options.max_inline_bytes = 257; });
  EXPECT_TRUE(fails_naming(prepared, Errc::limit_exceeded, "max_inline_bytes", {.value = 257}));
  EXPECT_EQ(prepared.error().os_error, EINVAL);
  EXPECT_EQ(live(), before);
  EXPECT_TRUE(
      succeeds(bench.prepare([](QueuePairOptions& options) { options.max_inline_bytes = 256; })));
}

TEST_F(QueuePairCreateTest, NoInlineIsNotTriedTwice) {
  table.create_qp = [](ibv_pd*, ibv_qp_init_attr*) -> ibv_qp* {
    ++creations;
    errno = ENOMEM;
    return nullptr;
  };
  const Bench bench(open());
  const auto prepared =
      bench.prepare([](QueuePairOptions& options) { options.max_inline_bytes = 0; });
  ASSERT_TRUE(fails_with(prepared, Errc::out_of_resources));
  EXPECT_EQ(prepared.error().os_error, ENOMEM);
  EXPECT_EQ(creations, 1);
}

int create_refusal = 0;

/// A device that accepts no inline data, and answers with `create_refusal`.
ibv_qp* refuse_inline(ibv_pd* domain, ibv_qp_init_attr* init) {
  if (init->cap.max_inline_data == 0) return verbatim_null_provider()->create_qp(domain, init);
  errno = create_refusal;
  return nullptr;
}

TEST_F(QueuePairCreateTest, WhatCanMeanTooMuchInlineIsTriedWithout) {
  table.create_qp = &refuse_inline;
  const Bench bench(open());
  for (const int error : {EINVAL, EOPNOTSUPP, ENOSYS, ENOMEM}) {
    create_refusal = error;
    EXPECT_EQ(require(bench.prepare()).limits().max_inline_bytes, 0u) << error;
  }
}

// If the device is gone or denies access, the library does not ask for something smaller.
TEST_F(QueuePairCreateTest, WhatCannotMeanTooMuchInlineIsReportedAsItIs) {
  table.create_qp = &refuse_inline;
  const Bench bench(open());
  for (const int error : {EIO, EPERM, EACCES, EBUSY, ENODEV, EAGAIN, EFAULT, EINTR}) {
    create_refusal = error;
    for (const std::optional<std::uint32_t> asked : {std::optional<std::uint32_t>{}, {100u}}) {
      const auto prepared =
          bench.prepare([&](QueuePairOptions& options) { options.max_inline_bytes = asked; });
      ASSERT_FALSE(prepared) << error;
      EXPECT_EQ(prepared.error().os_error, error);
      EXPECT_STREQ(prepared.error().field, "");
    }
  }
}

TEST_F(QueuePairCreateTest, AnotherRefusalIsReportedAsItWas) {
  table.create_qp = [](ibv_pd*, ibv_qp_init_attr* init) -> ibv_qp* {
    // The first answer counts, not that of the second attempt.
    errno = init->cap.max_inline_data > 0 ? EPERM : EIO;
    return nullptr;
  };
  const Bench bench(open());
  const auto prepared = bench.prepare();
  ASSERT_TRUE(fails_with(prepared, Errc::permission_denied));
  EXPECT_EQ(prepared.error().os_error, EPERM);
  EXPECT_STREQ(prepared.error().operation, "ibv_create_qp");
}

// ---- What the device cannot do at all

TEST_F(QueuePairCreateTest, IwarpHasNoConnectionsHereAndSaysWhy) {
  knobs.transport_type = IBV_TRANSPORT_IWARP;
  const Bench bench(open());
  for (const auto type : {QueuePairType::reliable_connection, QueuePairType::unreliable_connection,
                          QueuePairType::unreliable_datagram}) {
    const auto prepared = bench.prepare([&](QueuePairOptions& options) { options.type = type; });
    EXPECT_TRUE(fails_naming(prepared, Errc::unsupported, to_string(type)));
    EXPECT_NE(prepared.error().text_view().find("rdma_cm"), std::string_view::npos);
  }
  EXPECT_EQ(creations, 0);
}

TEST_F(QueuePairCreateTest, DatagramDevicesHaveDatagrams) {
  knobs.transport_type = IBV_TRANSPORT_UNSPECIFIED;
  const Bench bench(open());
  for (const auto type :
       {QueuePairType::reliable_connection, QueuePairType::unreliable_connection}) {
    const auto prepared = bench.prepare([&](QueuePairOptions& options) { options.type = type; });
    EXPECT_TRUE(fails_naming(prepared, Errc::unsupported, to_string(type)));
    EXPECT_NE(prepared.error().text_view().find("UD"), std::string_view::npos);
  }
  EXPECT_TRUE(succeeds(bench.prepare(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_datagram; })));
}

TEST_F(QueuePairCreateTest, AtomicRightsNeedAtomics) {
  knobs.device.atomic_cap = IBV_ATOMIC_NONE;
  const Bench bench(open());
  EXPECT_TRUE(fails_naming(
      bench.prepare([](QueuePairOptions& options) { options.access = Access::remote_atomic; }),
      Errc::unsupported, "atomics"));
  EXPECT_FALSE(require(bench.prepare()).endpoint().atomics);
}

TEST_F(QueuePairCreateTest, ATypeReachesTheDevice) {
  const Bench bench(open());
  struct Row {
    QueuePairType type;
    ibv_qp_type raw;
  };
  for (const auto& [type, raw] : {Row{QueuePairType::reliable_connection, IBV_QPT_RC},
                                  Row{QueuePairType::unreliable_connection, IBV_QPT_UC},
                                  Row{QueuePairType::unreliable_datagram, IBV_QPT_UD}}) {
    const auto prepared =
        require(bench.prepare([&](QueuePairOptions& options) { options.type = type; }));
    EXPECT_EQ(created.qp_type, raw);
    EXPECT_EQ(prepared.endpoint().type, type);
  }
}

TEST_F(QueuePairCreateTest, ADatagramIsNoLongerThanAPacket) {
  knobs.port.active_mtu = IBV_MTU_2048;
  const Bench bench(open());
  const auto prepared = require(bench.prepare(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_datagram; }));
  EXPECT_EQ(prepared.limits().max_message_bytes, 2048u);
  EXPECT_EQ(prepared.endpoint().max_message_bytes, 2048u);
}

// ---- Shared receive queues

TEST_F(QueuePairCreateTest, WithASharedQueueHasNoReceivesOfItsOwn) {
  const Bench bench(open());
  const auto shared = require(bench.domain.create_shared_receive_queue({.max_requests = 8}));
  const auto prepared = require(
      bench.prepare([&](QueuePairOptions& options) { options.shared_receive_queue = shared; }));
  EXPECT_EQ(created.srq, unsafe::native(shared));
  EXPECT_EQ(created.cap.max_recv_wr, 0u);
  EXPECT_EQ(created.cap.max_recv_sge, 0u);
  EXPECT_EQ(prepared.limits().max_receive_requests, 0u);
}

TEST_F(QueuePairCreateTest, WithASharedQueueCannotAskForReceives) {
  const Bench bench(open());
  const auto shared = require(bench.domain.create_shared_receive_queue({.max_requests = 8}));
  EXPECT_TRUE(fails_naming(bench.prepare([&](QueuePairOptions& options) {
    options.shared_receive_queue = shared;
    options.max_receive_requests = 5;
  }),
                           Errc::invalid_argument, "shared receive queue", {.value = 5}));
  EXPECT_TRUE(fails_with(bench.prepare([&](QueuePairOptions& options) {
    options.shared_receive_queue = shared;
    options.max_receive_elements = 5;
  }),
                         Errc::invalid_argument));
}

// ---- Routes that cannot be

TEST_F(QueuePairCreateTest, ServiceLevelHasFourBits) {
  const Bench bench(open());
  EXPECT_TRUE(fails_naming(
      bench.prepare([](QueuePairOptions& options) { options.route.service_level = 16; }),
      Errc::invalid_argument, "service_level", {.value = 16, .limit = 15}));
  EXPECT_TRUE(
      succeeds(bench.prepare([](QueuePairOptions& options) { options.route.service_level = 15; })));
}

TEST_F(QueuePairCreateTest, FlowLabelHasTwentyBits) {
  const Bench bench(open());
  EXPECT_TRUE(fails_naming(
      bench.prepare([](QueuePairOptions& options) { options.route.flow_label = 0x100000; }),
      Errc::invalid_argument, "flow_label", {.value = 0x100000, .limit = 0xfffff}));
  EXPECT_TRUE(succeeds(
      bench.prepare([](QueuePairOptions& options) { options.route.flow_label = 0xfffff; })));
}

// ---- Nothing is left behind

// If something fails after the device has created the queue pair, it is destroyed again.
TEST_F(QueuePairCreateTest, ThatCannotBeDescribedIsDestroyed) {
  table.query_pkey = [](ibv_context*, std::uint8_t, int, __be16*) {
    errno = EIO;
    return -1;
  };
  const Bench bench(open());
  const int before = live();
  EXPECT_TRUE(fails_with(bench.prepare(), Errc::driver));
  EXPECT_EQ(creations, 1);
  EXPECT_EQ(live(), before);
  EXPECT_EQ(bench.queue.reserved(), 0u);
}

TEST_F(QueuePairCreateTest, ThatCannotBeInitializedIsDestroyed) {
  table.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return EINVAL; };
  const Bench bench(open());
  const int before = live();
  const auto prepared = bench.prepare();
  ASSERT_TRUE(fails_with(prepared, Errc::invalid_argument));
  EXPECT_EQ(prepared.error().text_view(), "INIT");
  EXPECT_EQ(live(), before);
  EXPECT_EQ(bench.queue.reserved(), 0u);
}

TEST_F(QueuePairCreateTest, OnAPortThatIsDownIsNotEvenMade) {
  knobs.port.state = IBV_PORT_DOWN;
  const Bench bench(open());
  EXPECT_TRUE(fails_with(bench.prepare(), Errc::not_ready));
  EXPECT_EQ(creations, 0);
}

TEST_F(QueuePairCreateTest, KeepsDomainAndQueuesAlive) {
  std::optional<Bench> bench{open()};
  const QueuePair connected = bench->connected();
  const int before = live();
  bench.reset();
  EXPECT_EQ(live(), before);
  EXPECT_EQ(require(connected.query_state()), QueuePairState::ready_to_send);
  EXPECT_EQ(require(connected.domain().context().query_port(1)).number, 1);
}

}  // namespace
}  // namespace verbatim::test
