// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: unreliable connections and datagrams deliver what arrives whole, and report the sender.
// Method: the device talks to itself, where nothing is lost unless the receiver refuses it.
// Covers: soft/address_handle.cpp, soft/datagram.cpp
#include <gtest/gtest.h>

#include <algorithm>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/raw_verbs.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kHeader = 40;  ///< At the start of a datagram's receive buffer.

class UnreliableConnection : public testing::Test {
 protected:
  void SetUp() override {
    if (!capabilities().unreliable_connection)
      GTEST_SKIP() << "the device has no unreliable connections";
  }
  const PairOptions options_{.type = QueuePairType::unreliable_connection};
};

TEST_F(UnreliableConnection, SendsBothWays) {
  ConnectedPair pair(options_);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{20'000}})
    exchange(pair, bytes);
}

TEST_F(UnreliableConnection, WritesWithAndWithoutImmediate) {
  ConnectedPair pair(options_);
  ScatteredMemory source(pair.domain, 20'000, 3, test_seed());
  ExposedMemory first(pair.domain, 20'000, Access::remote_write);
  ExposedMemory second(pair.domain, 20'000, Access::remote_write);
  source.fill(test_seed());
  pair.remote.post(Receive{}, 1);
  pair.local.post(Write{source.gather(), first.remote()}, 2);
  pair.local.post(Write{source.gather(), second.remote(), {.immediate = 0x12345678}}, 3);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 2), 2));
  const Completion received = poll_ok(pair.remote.receives);
  EXPECT_EQ(received.opcode(), Opcode::receive_immediate);
  EXPECT_EQ(received.immediate(), 0x12345678u);
  EXPECT_EQ(received.byte_count(), 20'000u);
  EXPECT_TRUE(first.holds(test_seed()));
  EXPECT_TRUE(second.holds(test_seed()));
}

TEST_F(UnreliableConnection, HasNoReadsAndNoAtomics) {
  ConnectedPair pair(options_);
  ExposedMemory source(pair.domain, 64, Access::remote_read);
  Buffer sink = require(pair.domain.allocate(64));
  EXPECT_TRUE(fails_with(
      unsafe::post(pair.local.queue_pair, Read{sink.scatter(), source.remote()}, WrId{1}),
      Errc::unsupported));
  EXPECT_TRUE(fails_with(
      unsafe::post(pair.local.queue_pair,
                   FetchAdd{sink.scatter(0, 8), require(RemoteAtomic::at(source.remote())), 1},
                   WrId{1}),
      Errc::unsupported));
  exchange(pair);
}

TEST_F(UnreliableConnection, SenderSucceedsWithoutAReceiver) {
  ConnectedPair pair(options_);
  {
    const QueuePair gone = std::move(pair.remote.queue_pair);
  }
  Buffer source = require(pair.domain.allocate(100));
  pair.local.post(Send{source.gather()}, 1);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
}

// What is sent to a queue pair that never existed is lost like any other message. Mistakes of the
// sender are still reported.
TEST_F(UnreliableConnection, SenderSucceedsWhereNobodyIs) {
  const raw::Owned<ibv_context> context = raw::open();
  const raw::Owned<ibv_pd> domain = raw::domain(context.get());
  const raw::Owned<ibv_cq> queue = raw::completion_queue(context.get());
  const raw::Mapping memory{4096};
  const raw::Owned<ibv_mr> region = raw::region(domain.get(), memory.bytes());
  const raw::Owned<ibv_qp> sender = raw::queue_pair(
      {.domain = domain.get(), .sends = queue.get(), .receives = queue.get(), .type = IBV_QPT_UC});
  raw::Address nobody = raw::address_of(sender.get());
  nobody.number ^= 0x800000;  // Far away from the numbers in use.
  raw::connect(sender.get(), nobody);
  const raw::Piece piece = raw::local(region.get(), 0, 64);
  ASSERT_EQ(raw::post_send(sender.get(), 1, piece), 0);
  const auto sent = raw::poll_within(queue.get(), kPatience);
  ASSERT_TRUE(sent) << "no completion";
  EXPECT_EQ(sent->status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent->wr_id, 1u);
  ASSERT_EQ(raw::post_write(sender.get(), 2, piece, raw::remote(region.get(), 1024, 64)), 0);
  EXPECT_EQ(raw::poll_one(queue.get()).status, IBV_WC_SUCCESS);
  const raw::Piece wrong{.address = piece.address, .bytes = 64, .key = piece.key ^ 0x7fff0000};
  ASSERT_EQ(raw::post_send(sender.get(), 3, wrong), 0);
  EXPECT_NE(raw::poll_one(queue.get()).status, IBV_WC_SUCCESS);
}

class Datagrams : public testing::Test {
 protected:
  void SetUp() override {
    if (!capabilities().unreliable_datagram) GTEST_SKIP() << "the device has no datagrams";
  }
  const PairOptions options_{.type = QueuePairType::unreliable_datagram};
};

/// What a datagram needs to reach `to`.
struct Address {
  Address(const Side& from, const Side& to)
      : handle(require(from.queue_pair.address_handle(to.queue_pair.endpoint()))),
        number(to.queue_pair.number()),
        key(to.queue_pair.endpoint().queue_key) {}
  AddressHandle handle;
  QpNumber number;
  QueueKey key;
};

TEST_F(Datagrams, CarryDataImmediateAndSender) {
  ConnectedPair pair(options_);
  const Address address(pair.local, pair.remote);
  Buffer source = require(pair.domain.allocate(200));
  Buffer sink = require(pair.domain.allocate(kHeader + 200));
  fill(source.bytes(), test_seed());
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Datagram{source.gather(), address.handle, address.number, address.key,
                           SendOptions{.immediate = 0x12345678}},
                  2);
  EXPECT_EQ(poll_ok(pair.local.sends).opcode(), Opcode::send);
  const Completion received = poll_ok(pair.remote.receives);
  EXPECT_EQ(received.id(), WrId{1});
  EXPECT_EQ(received.opcode(), Opcode::receive);
  EXPECT_EQ(received.byte_count(), kHeader + 200) << "the header counts";
  EXPECT_EQ(received.immediate(), 0x12345678u);
  EXPECT_EQ(received.source(), pair.local.queue_pair.number());
  if (pair.local.queue_pair.endpoint().link_layer == LinkLayer::ethernet) {
    EXPECT_TRUE(received.has_grh()) << "on Ethernet every packet has the header";
  }
  EXPECT_TRUE(holds(sink.bytes().subspan(kHeader), test_seed()));
}

TEST_F(Datagrams, OfEveryLengthUpToTheMtuArrive) {
  ConnectedPair pair(options_);
  const Address address(pair.local, pair.remote);
  const std::uint32_t most = pair.local.queue_pair.limits().max_message_bytes;
  EXPECT_EQ(most, byte_count(pair.local.queue_pair.endpoint().mtu));
  for (const std::uint32_t bytes : {0u, 1u, 3u, most - 1, most}) {
    ScatteredMemory source(pair.domain, bytes, 2, test_seed());
    Buffer sink = require(pair.domain.allocate(kHeader + most));
    source.fill(test_seed());
    pair.remote.post(Receive{sink.scatter()}, 1);
    const std::array from{source.gather()[0], source.gather()[1]};
    pair.local.post(Datagram{from, address.handle, address.number, address.key}, 2);
    poll_ok(pair.local.sends);
    EXPECT_EQ(poll_ok(pair.remote.receives).byte_count(), kHeader + bytes);
    EXPECT_TRUE(holds(sink.bytes().subspan(kHeader, bytes), test_seed()));
  }
}

TEST_F(Datagrams, AboveTheMtuAreRefused) {
  ConnectedPair pair(options_);
  const Address address(pair.local, pair.remote);
  const std::uint32_t most = pair.local.queue_pair.limits().max_message_bytes;
  Buffer source = require(pair.domain.allocate(most + 1));
  const auto result =
      unsafe::post(pair.local.queue_pair,
                   Datagram{source.gather(), address.handle, address.number, address.key}, WrId{1});
  ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_EQ(result.error().value, most + 1);
  EXPECT_EQ(result.error().limit, most);
}

TEST_F(Datagrams, WithAWrongQueueKeyAreDropped) {
  ConnectedPair pair(options_);
  const Address address(pair.local, pair.remote);
  Buffer source = require(pair.domain.allocate(200));
  Buffer sink = require(pair.domain.allocate(2 * (kHeader + 100)));
  fill(source.bytes().first(100), test_seed());
  fill(source.bytes().last(100), test_seed() + 1);
  pair.remote.post(Receive{sink.scatter(0, kHeader + 100)}, 1);
  pair.remote.post(Receive{sink.scatter(kHeader + 100)}, 2);
  const QueueKey wrong{std::to_underlying(address.key) ^ 1};
  pair.local.post(Datagram{source.gather(0, 100), address.handle, address.number, wrong}, 3);
  pair.local.post(Datagram{source.gather(100), address.handle, address.number, address.key}, 4);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 2), 3));
  EXPECT_EQ(poll_ok(pair.remote.receives).id(), WrId{1});
  EXPECT_TRUE(holds(sink.bytes().subspan(kHeader, 100), test_seed() + 1));
  EXPECT_FALSE(poll_within(pair.remote.receives, std::chrono::milliseconds{200}));
}

TEST_F(Datagrams, GoFromOneToManyAndBack) {
  ConnectedPair pair(options_);
  ConnectedPair other(pair.domain, options_);
  Buffer sink = require(pair.domain.allocate(3 * kHeader));
  Side* const receivers[] = {&pair.remote, &other.local, &other.remote};
  for (Side* const to : receivers) {
    const Address there(pair.local, *to);
    const Address back(*to, pair.local);
    to->post(Receive{sink.scatter(0, kHeader)}, 1);
    pair.local.post(Receive{sink.scatter(kHeader, kHeader)}, 2);
    pair.local.post(
        Datagram<0>{.to = there.handle, .queue_pair = there.number, .queue_key = there.key}, 3);
    EXPECT_EQ(poll_ok(to->receives).source(), pair.local.queue_pair.number());
    to->post(Datagram<0>{.to = back.handle, .queue_pair = back.number, .queue_key = back.key}, 4);
    EXPECT_EQ(poll_ok(pair.local.receives).source(), to->queue_pair.number());
    poll_ok(pair.local.sends);
    poll_ok(to->sends);
  }
}

TEST_F(Datagrams, ReachAnAddressThatTheCallerSpelled) {
  ConnectedPair pair(options_);
  const Endpoint& peer = pair.remote.queue_pair.endpoint();
  const Path path = require(choose_path(pair.local.queue_pair.endpoint(), peer));
  const AddressHandle handle = require(pair.domain.create_address_handle({
      .port = require(pair.context.first_active_port()).number,
      .remote_lid = path.remote_lid,
      .global = path.global,
      .remote_gid = path.remote_gid,
      .local_gid_index = path.local_gid_index,
  }));
  Buffer sink = require(pair.domain.allocate(kHeader));
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Datagram<0>{.to = handle,
                              .queue_pair = peer.queue_pair,
                              .queue_key = peer.queue_key,
                              .options = {.immediate = 5}},
                  2);
  EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), 5u);
}

TEST_F(Datagrams, HaveNoPeerToConnectTo) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  options.type = QueuePairType::unreliable_datagram;
  PreparedQueuePair prepared = require(QueuePair::prepare(options));
  const Endpoint self = prepared.endpoint();
  EXPECT_TRUE(fails_with(std::move(prepared).connect(self), Errc::invalid_argument));
  EXPECT_TRUE(succeeds(std::move(prepared).activate()));
}

}  // namespace
}  // namespace verbatim::test
