// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a mistake that two sides make when they connect becomes visible, and nothing is delivered:
//       a program that was tested on one device does not fail on another.
// Method: one value is wrong per test; the tests use bare verbs, because the library gets the
//         values right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "support/pattern.hpp"
#include "support/raw_verbs.hpp"
#include "support/soft_faults.hpp"

namespace verbatim::test {
namespace {

constexpr std::byte kOld{0x11};
constexpr std::byte kNew{0x5a};
constexpr std::uint32_t kTargetBytes = 64;
constexpr std::uint64_t kReceive = 7;

/// How long a device may take for its retries, on an emulated machine.
constexpr std::chrono::seconds kRetries{10};

/// Two queue pairs that a test connects wrongly, and memory at both ends.
struct Misconnected {
  Misconnected() {
    memory.fill(kOld);
    std::ranges::fill(memory.bytes().first(kTargetBytes), kNew);
  }
  [[nodiscard]] raw::Piece source() const { return raw::local(region.get(), 0, kTargetBytes); }
  [[nodiscard]] raw::Piece target() const { return raw::remote(region.get(), 4096, kTargetBytes); }
  [[nodiscard]] testing::AssertionResult target_is(std::byte value) const {
    return all_equal(memory.bytes().subspan(4096, kTargetBytes), value);
  }
  /// The status of the requester's completion, or nothing.
  [[nodiscard]] std::optional<ibv_wc_status> outcome() const {
    const auto found = raw::poll_within(sends.get(), kRetries);
    if (!found) return std::nullopt;
    return found->status;
  }
  void post_receive() const {
    ASSERT_EQ(
        raw::post_receive(responder.get(), kReceive, raw::local(region.get(), 4096, kTargetBytes)),
        0);
  }
  /// A send and a write fail, and leave no trace at the responder.
  void expect_nothing_arrives() const {
    post_receive();
    ASSERT_EQ(raw::post_send(requester.get(), 1, source()), 0);
    const auto status = outcome();
    ASSERT_TRUE(status) << "no completion";
    EXPECT_EQ(*status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_FALSE(raw::poll_within(receives.get(), std::chrono::milliseconds{50}))
        << "the receive was used";
    EXPECT_TRUE(target_is(kOld));
  }

  raw::Owned<ibv_context> context = raw::open();
  raw::Owned<ibv_pd> domain = raw::domain(context.get());
  raw::Owned<ibv_cq> sends = raw::completion_queue(context.get());
  raw::Owned<ibv_cq> receives = raw::completion_queue(context.get());
  raw::Mapping memory{8192};
  raw::Owned<ibv_mr> region = raw::region(domain.get(), memory.bytes());
  raw::Owned<ibv_qp> requester =
      raw::queue_pair({.domain = domain.get(), .sends = sends.get(), .receives = sends.get()});
  raw::Owned<ibv_qp> responder = raw::queue_pair(
      {.domain = domain.get(), .sends = receives.get(), .receives = receives.get()});
};

/// The same objects, and two queue pairs that exchange datagrams.
struct DatagramPair : Misconnected {
  DatagramPair() { raw::connect(sender.get(), receiver.get()); }
  void post_receive(std::uint64_t id) const {
    ASSERT_EQ(raw::post_receive(receiver.get(), id, raw::local(region.get(), 4096, 256)), 0);
  }
  [[nodiscard]] raw::Owned<ibv_ah> right_address() const {
    return raw::address_handle(domain.get(), raw::address_of(receiver.get()));
  }
  /// A request of any operation, which names its destination as a datagram does.
  [[nodiscard]] int post(ibv_wr_opcode opcode, ibv_ah* to) const {
    return raw::post_datagram(sender.get(), 1, source(), to, receiver->qp_num, opcode);
  }

  raw::Owned<ibv_qp> sender = make(sends.get());
  raw::Owned<ibv_qp> receiver = make(receives.get());

 private:
  [[nodiscard]] raw::Owned<ibv_qp> make(ibv_cq* queue) const {
    return raw::queue_pair(
        {.domain = domain.get(), .sends = queue, .receives = queue, .type = IBV_QPT_UD});
  }
};

testing::AssertionResult is_one_of(const std::optional<ibv_wc_status>& status,
                                   std::initializer_list<ibv_wc_status> allowed) {
  if (!status) return testing::AssertionFailure() << "no completion";
  if (std::ranges::count(allowed, *status) > 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status " << *status;
}

// ---- Sequence numbers

/// The requester starts at `first`, the responder expects `expected`.
void connect_out_of_step(const Misconnected& pair, std::uint32_t first, std::uint32_t expected) {
  raw::Address requester = raw::address_of(pair.requester.get());
  requester.psn = expected;
  raw::connect(pair.responder.get(), requester);
  ASSERT_EQ(raw::to_init(pair.requester.get()), 0);
  ASSERT_EQ(raw::to_ready_to_receive(pair.requester.get(), raw::address_of(pair.responder.get())),
            0);
  const raw::Settings settings = first == expected ? raw::Settings{} : raw::kSoonLost;
  ASSERT_EQ(raw::to_ready_to_send(pair.requester.get(), settings, first), 0);
}

TEST(SequenceNumber, AheadOfTheExpectedOneDeliversNothing) {
  const Misconnected pair;
  connect_out_of_step(pair, 0x777, 0);
  pair.expect_nothing_arrives();
}

TEST(SequenceNumber, BehindTheExpectedOneDeliversNothing) {
  const Misconnected pair;
  connect_out_of_step(pair, 0, 0x777);
  pair.expect_nothing_arrives();
}

TEST(SequenceNumber, OfAWriteThatIsWrongWritesNothing) {
  const Misconnected pair;
  connect_out_of_step(pair, 0x777, 0);
  ASSERT_EQ(raw::post_write(pair.requester.get(), 1, pair.source(), pair.target()), 0);
  EXPECT_TRUE(is_one_of(pair.outcome(), {IBV_WC_RETRY_EXC_ERR}));
  EXPECT_TRUE(pair.target_is(kOld));
}

TEST(SequenceNumber, ThatBothAgreeOnDelivers) {
  const Misconnected pair;
  connect_out_of_step(pair, 0x777, 0x777);
  ASSERT_EQ(raw::post_write(pair.requester.get(), 1, pair.source(), pair.target()), 0);
  EXPECT_TRUE(is_one_of(pair.outcome(), {IBV_WC_SUCCESS}));
  EXPECT_TRUE(pair.target_is(kNew));
}

// ---- Addresses

/// Uses the right queue pair number at an address that nobody has.
void expect_wrong_address_delivers_nothing(const std::function<void(raw::Address&)>& change) {
  const Misconnected pair;
  raw::connect(pair.responder.get(), raw::address_of(pair.requester.get()));
  raw::Address wrong = raw::address_of(pair.responder.get());
  change(wrong);
  ASSERT_EQ(raw::to_init(pair.requester.get()), 0);
  if (raw::to_ready_to_receive(pair.requester.get(), wrong) != 0) return;  // Refusing is enough.
  ASSERT_EQ(raw::to_ready_to_send(pair.requester.get(), raw::kSoonLost), 0);
  pair.expect_nothing_arrives();
}

TEST(Address, WithAnotherLidDeliversNothing) {
  if (raw::is_ethernet(raw::open().get())) GTEST_SKIP() << "Ethernet has no LIDs";
  expect_wrong_address_delivers_nothing([](raw::Address& each) { each.lid = 0x77; });
}

TEST(Address, WithAnotherGidDeliversNothing) {
  if (!raw::is_ethernet(raw::open().get())) GTEST_SKIP() << "LIDs lead the way on InfiniBand";
  expect_wrong_address_delivers_nothing([](raw::Address& each) { each.gid.raw[15] ^= 9; });
}

/// A datagram with the right queue pair number and key goes to an address that nobody has, then
/// one to the right address.
void expect_wrong_address_loses_the_datagram(const std::function<void(raw::Address&)>& change) {
  if (!capabilities().unreliable_datagram) GTEST_SKIP() << "the device has no datagrams";
  const DatagramPair objects;
  raw::Address wrong = raw::address_of(objects.receiver.get());
  change(wrong);
  ibv_ah_attr path = raw::path_to(objects.context.get(), wrong);
  const raw::Owned<ibv_ah> nowhere{raw::verbs().create_ah(objects.domain.get(), &path)};
  objects.post_receive(kReceive);
  objects.post_receive(kReceive + 1);
  // Refusing is enough.
  if (nowhere && objects.post(IBV_WR_SEND, nowhere.get()) == 0)
    static_cast<void>(raw::poll_within(objects.sends.get(), kRetries));
  const raw::Owned<ibv_ah> there = objects.right_address();
  ASSERT_EQ(objects.post(IBV_WR_SEND, there.get()), 0);
  raw::poll_ok(objects.sends.get());
  EXPECT_EQ(raw::poll_ok(objects.receives.get()).wr_id, kReceive);
  EXPECT_FALSE(raw::poll_within(objects.receives.get(), std::chrono::milliseconds{50}))
      << "the lost one arrived";
}

TEST(Address, OfADatagramWithAnotherLidDeliversNothing) {
  if (raw::is_ethernet(raw::open().get())) GTEST_SKIP() << "Ethernet has no LIDs";
  expect_wrong_address_loses_the_datagram([](raw::Address& each) { each.lid = 0x77; });
}

TEST(Address, OfADatagramWithAnotherGidDeliversNothing) {
  if (!raw::is_ethernet(raw::open().get())) GTEST_SKIP() << "LIDs lead the way on InfiniBand";
  expect_wrong_address_loses_the_datagram([](raw::Address& each) { each.gid.raw[15] ^= 9; });
}

// ---- Operations that a type of queue pair does not have

/// The post is refused, or the request fails, and the target is as it was.
void expect_refused_or_failed(const Misconnected& objects, int posted, const std::string& what) {
  if (posted == 0) {
    const auto status = objects.outcome();
    ASSERT_TRUE(status) << what << ": no completion";
    EXPECT_NE(*status, IBV_WC_SUCCESS) << what;
  }
  EXPECT_TRUE(objects.target_is(kOld)) << what;
}

TEST(Operations, ThatReadFailOnAnUnreliableConnection) {
  if (!capabilities().unreliable_connection) GTEST_SKIP() << "the device has no such connections";
  for (const bool atomic : {false, true}) {
    Misconnected pair;
    const auto make = [&](ibv_cq* queue) {
      return raw::queue_pair(
          {.domain = pair.domain.get(), .sends = queue, .receives = queue, .type = IBV_QPT_UC});
    };
    pair.requester = make(pair.sends.get());
    pair.responder = make(pair.receives.get());
    raw::connect(pair.requester.get(), pair.responder.get());
    const raw::Piece into = raw::local(pair.region.get(), 0, 8);
    const raw::Piece from = raw::remote(pair.region.get(), 4096, 8);
    expect_refused_or_failed(pair,
                             atomic ? raw::post_fetch_add(pair.requester.get(), 1, into, from, 1)
                                    : raw::post_read(pair.requester.get(), 1, into, from),
                             atomic ? "fetch and add" : "read");
    EXPECT_TRUE(all_equal(pair.memory.bytes().first(8), kNew)) << "nothing was read";
  }
}

TEST(Operations, ThatNameRemoteMemoryFailOnADatagramQueuePair) {
  if (!capabilities().unreliable_datagram) GTEST_SKIP() << "the device has no datagrams";
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    const DatagramPair objects;
    const raw::Owned<ibv_ah> there = objects.right_address();
    objects.post_receive(kReceive);
    expect_refused_or_failed(objects, objects.post(opcode, there.get()),
                             "opcode " + std::to_string(opcode));
    EXPECT_FALSE(raw::poll_within(objects.receives.get(), std::chrono::milliseconds{20})) << opcode;
  }
}

// ---- Reads and atomics in flight

enum class Kind : std::uint8_t { read, fetch_add };

class ReadsInFlight : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::fetch_add && !capabilities().atomics)
      GTEST_SKIP() << "the device has no atomics";
  }
  [[nodiscard]] static int post(const Misconnected& pair) {
    const raw::Piece into = raw::local(pair.region.get(), 0, 8);
    const raw::Piece from = raw::remote(pair.region.get(), 4096, 8);
    return GetParam() == Kind::read ? raw::post_read(pair.requester.get(), 1, into, from)
                                    : raw::post_fetch_add(pair.requester.get(), 1, into, from, 1);
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, ReadsInFlight, testing::Values(Kind::read, Kind::fetch_add),
                         [](const auto& each) {
                           return each.param == Kind::read ? "Read" : "FetchAdd";
                         });

TEST_P(ReadsInFlight, NoneAllowedToTheRequesterFailThere) {
  const Misconnected pair;
  raw::connect(pair.responder.get(), raw::address_of(pair.requester.get()));
  raw::connect(pair.requester.get(), raw::address_of(pair.responder.get()), {.max_reads_out = 0});
  if (post(pair) != 0) return;  // Refusing is enough.
  EXPECT_TRUE(is_one_of(pair.outcome(), {IBV_WC_LOC_QP_OP_ERR}));
  EXPECT_TRUE(pair.target_is(kOld));
}

TEST_P(ReadsInFlight, NoneAllowedByTheResponderFailThere) {
  const Misconnected pair;
  raw::connect(pair.responder.get(), raw::address_of(pair.requester.get()), {.max_reads_in = 0});
  raw::connect(pair.requester.get(), raw::address_of(pair.responder.get()));
  ASSERT_EQ(post(pair), 0);
  EXPECT_TRUE(is_one_of(pair.outcome(), {IBV_WC_REM_INV_REQ_ERR}));
  EXPECT_TRUE(pair.target_is(kOld));
}

// ---- Rights

/// A queue pair that does not allow the operation at all may call the request itself invalid.
constexpr std::initializer_list<ibv_wc_status> kDenied{IBV_WC_REM_ACCESS_ERR,
                                                       IBV_WC_REM_INV_REQ_ERR};

TEST(Rights, OfTheQueuePairCountForAWriteOfNoBytes) {
  const Misconnected pair;
  raw::connect(pair.responder.get(), raw::address_of(pair.requester.get()),
               {.access = IBV_ACCESS_REMOTE_READ});
  raw::connect(pair.requester.get(), raw::address_of(pair.responder.get()));
  ASSERT_EQ(raw::post_write(pair.requester.get(), 1, {}, {}), 0);
  EXPECT_TRUE(is_one_of(pair.outcome(), kDenied));
}

TEST(Rights, OfTheQueuePairCountForAReadOfNoBytes) {
  const Misconnected pair;
  raw::connect(pair.responder.get(), raw::address_of(pair.requester.get()),
               {.access = IBV_ACCESS_REMOTE_WRITE});
  raw::connect(pair.requester.get(), raw::address_of(pair.responder.get()));
  ASSERT_EQ(raw::post_read(pair.requester.get(), 1, {}, {}), 0);
  EXPECT_TRUE(is_one_of(pair.outcome(), kDenied));
}

TEST(Rights, ThatAreThereLetAWriteOfNoBytesPassWithoutAKey) {
  const Misconnected pair;
  raw::connect(pair.requester.get(), pair.responder.get());
  ASSERT_EQ(raw::post_write(pair.requester.get(), 1, {}, {}), 0);
  EXPECT_TRUE(is_one_of(pair.outcome(), {IBV_WC_SUCCESS}));
}

// ---- What cannot be made

/// Like ibv_create_qp_ex; nullptr with errno.
raw::Owned<ibv_qp> try_extended(const Misconnected& objects, ibv_qp_type type,
                                std::uint64_t operations) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = objects.sends.get();
  wanted.recv_cq = objects.receives.get();
  wanted.cap.max_send_wr = 4;
  wanted.cap.max_recv_wr = 4;
  wanted.cap.max_send_sge = 1;
  wanted.cap.max_recv_sge = 1;
  wanted.qp_type = type;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = objects.domain.get();
  wanted.send_ops_flags = operations;
  const verbs_context* const table = verbs_get_ctx(objects.context.get());
  return raw::Owned<ibv_qp>{table->create_qp_ex(objects.context.get(), &wanted)};
}

class ExtendedOperations : public testing::Test {
 protected:
  void SetUp() override {
    const verbs_context* const table = verbs_get_ctx(objects_.context.get());
    if (table == nullptr || table->create_qp_ex == nullptr ||
        !try_extended(objects_, IBV_QPT_RC, IBV_QP_EX_WITH_SEND)) {
      ASSERT_FALSE(on_soft_device()) << "this device has extended queue pairs";
      GTEST_SKIP() << "the device has no extended queue pairs";
    }
  }
  void expect_refused(ibv_qp_type type, std::uint64_t operations) {
    EXPECT_FALSE(try_extended(objects_, type, operations | IBV_QP_EX_WITH_SEND))
        << "operations " << operations << " on type " << type;
    EXPECT_TRUE(errno == EOPNOTSUPP || errno == EINVAL) << errno;
  }
  Misconnected objects_;
};

TEST_F(ExtendedOperations, ThatDatagramsCannotDoAreRefused) {
  expect_refused(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE);
  expect_refused(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ);
  expect_refused(IBV_QPT_UD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
}

TEST_F(ExtendedOperations, ThatUnreliableConnectionsCannotDoAreRefused) {
  expect_refused(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ);
  expect_refused(IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
  expect_refused(IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
}

TEST_F(ExtendedOperations, ThatEachTypeCanDoAreTaken) {
  EXPECT_TRUE(
      try_extended(objects_, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM));
  EXPECT_TRUE(try_extended(objects_, IBV_QPT_UC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE));
  EXPECT_TRUE(try_extended(objects_, IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ));
}

TEST(SharedReceiveQueueLimit, IsWhatTheDeviceSays) {
  if (!capabilities().shared_receive_queue) GTEST_SKIP() << "the device has no such queues";
  const raw::Owned<ibv_context> context = raw::open();
  const raw::Owned<ibv_pd> domain = raw::domain(context.get());
  ibv_device_attr_ex device{};
  ASSERT_EQ(raw::verbs().query_device(context.get(), &device), 0);
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = static_cast<std::uint32_t>(device.orig_attr.max_srq_wr) + 1;
  wanted.attr.max_sge = 1;
  const raw::Owned<ibv_srq> made{raw::verbs().create_srq(domain.get(), &wanted)};
  EXPECT_FALSE(made) << "with room for " << wanted.attr.max_wr;
  EXPECT_EQ(errno, EINVAL);
}

// ---- Who sent a datagram

TEST(DatagramSource, IsTheSendersLid) {
  if (!capabilities().unreliable_datagram) GTEST_SKIP() << "the device has no datagrams";
  const DatagramPair objects;
  if (raw::is_ethernet(objects.context.get())) GTEST_SKIP() << "Ethernet has no LIDs";
  const raw::Address from = raw::address_of(objects.sender.get());
  ASSERT_NE(from.lid, 0);
  const raw::Owned<ibv_ah> to = objects.right_address();
  objects.post_receive(kReceive);
  ASSERT_EQ(objects.post(IBV_WR_SEND, to.get()), 0);
  raw::poll_ok(objects.sends.get());
  const ibv_wc found = raw::poll_ok(objects.receives.get());
  EXPECT_EQ(found.slid, from.lid);
  EXPECT_EQ(found.src_qp, objects.sender->qp_num);

  // This is how programs answer that do not know global addresses.
  raw::Address back;
  back.lid = found.slid;
  const raw::Owned<ibv_ah> answer = raw::address_handle(objects.domain.get(), back);
  ASSERT_EQ(raw::post_receive(objects.sender.get(), kReceive,
                              raw::local(objects.region.get(), 4096, 256)),
            0);
  ASSERT_EQ(
      raw::post_datagram(objects.receiver.get(), 2, objects.source(), answer.get(), found.src_qp),
      0);
  raw::poll_ok(objects.receives.get());
  EXPECT_EQ(raw::poll_ok(objects.sends.get()).wr_id, kReceive);
}

}  // namespace
}  // namespace verbatim::test
