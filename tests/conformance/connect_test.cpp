// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an endpoint survives the way to the peer, two valid endpoints connect, and two that cannot
//       talk get the reason and come to no harm.
// Method: carry endpoints as bytes and as JSON; change one field at a time.
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "verbatim/provider/soft.hpp"

namespace verbatim::test {
namespace {

struct Sides {
  explicit Sides(const ChangeOptions& change = {}) {
    if (change) change(options);
  }
  ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
};

/// Sends one message from the first to the second; both complete on `queue`.
void check_message(QueuePair& from, QueuePair& to, CompletionQueue queue) {
  require(unsafe::post(to, Receive{}, WrId{1}));
  require(unsafe::post(from, send_immediate(7), WrId{2}));
  for (const Completion& each : poll_many(queue, 2)) {
    EXPECT_TRUE(succeeded(each));
    if (each.id() == WrId{1}) {
      EXPECT_EQ(each.immediate(), 7u);
    }
  }
}

TEST(Endpoint, DescribesTheQueuePair) {
  Sides sides;
  const PreparedQueuePair prepared = require(QueuePair::prepare(sides.options));
  const Endpoint& endpoint = prepared.endpoint();
  const Port port = require(sides.domain.context().first_active_port());
  EXPECT_EQ(endpoint.queue_pair, prepared.number());
  EXPECT_EQ(endpoint.type, QueuePairType::reliable_connection);
  EXPECT_EQ(endpoint.link_layer, port.link_layer);
  EXPECT_EQ(endpoint.mtu, port.active_mtu);
  EXPECT_EQ(endpoint.transport, sides.domain.context().transport());
  EXPECT_EQ(endpoint.fabric_id, sides.domain.context().fabric_id());
  EXPECT_EQ(endpoint.max_message_bytes, prepared.limits().max_message_bytes);
  EXPECT_LE(endpoint.gids.size(), Endpoint::kMaxGids);
  if (port.link_layer == LinkLayer::ethernet) {
    EXPECT_FALSE(endpoint.gids.empty());
  }
}

TEST(Endpoint, DiffersFromThatOfAnotherQueuePair) {
  Sides sides;
  const PreparedQueuePair first = require(QueuePair::prepare(sides.options));
  const PreparedQueuePair second = require(QueuePair::prepare(sides.options));
  EXPECT_NE(first.endpoint().queue_pair, second.endpoint().queue_pair);
  EXPECT_NE(first.endpoint().nonce, second.endpoint().nonce);
}

TEST(Endpoint, ConnectsAfterTheWayAsBytesAndAsJson) {
  Sides sides;
  PreparedQueuePair first = require(QueuePair::prepare(sides.options));
  PreparedQueuePair second = require(QueuePair::prepare(sides.options));
  const Endpoint as_bytes = require(decode_endpoint(encode(first.endpoint())));
  const Endpoint as_json = require(endpoint_from_json(to_json(second.endpoint())));
  EXPECT_EQ(as_bytes, first.endpoint());
  EXPECT_EQ(as_json, second.endpoint());
  QueuePair one = require(std::move(first).connect(as_json));
  QueuePair two = require(std::move(second).connect(as_bytes));
  check_message(one, two, sides.queue);
  check_message(two, one, sides.queue);
}

TEST(Endpoint, CutShortIsMalformed) {
  Sides sides;
  const PreparedQueuePair prepared = require(QueuePair::prepare(sides.options));
  const std::vector<std::byte> bytes = encode(prepared.endpoint());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_TRUE(fails_with(decode_endpoint(std::span{bytes}.first(size)), Errc::malformed));
}

TEST(Agreement, MirrorsThatOfThePeer) {
  ConnectedPair pair{
      {.local = [](QueuePairOptions& options) { options.max_read_atomic = 3; },
       .remote = [](QueuePairOptions& options) { options.mtu = MaximumTransferUnit::bytes_512; }}};
  const Agreement& ours = pair.local.queue_pair.agreement();
  const Agreement& theirs = pair.remote.queue_pair.agreement();
  EXPECT_EQ(ours.mtu, MaximumTransferUnit::bytes_512);
  EXPECT_EQ(theirs.mtu, ours.mtu);
  EXPECT_EQ(ours.max_read_atomic, 3);
  EXPECT_EQ(theirs.max_dest_read_atomic, 3);
  EXPECT_EQ(ours.send_psn, theirs.receive_psn);
  EXPECT_EQ(ours.receive_psn, theirs.send_psn);
  EXPECT_EQ(ours.remote_queue_pair, pair.remote.queue_pair.number());
  EXPECT_EQ(ours.remote_nonce, pair.remote.queue_pair.endpoint().nonce);
  exchange(pair);
}

TEST(Connect, RefusesAnIncompatiblePeerAndCanBeTriedAgain) {
  Sides sides;
  PreparedQueuePair first = require(QueuePair::prepare(sides.options));
  PreparedQueuePair second = require(QueuePair::prepare(sides.options));
  const auto expect_refusal = [&](std::string_view field, auto change) {
    Endpoint peer = second.endpoint();
    change(peer);
    const auto result = std::move(first).connect(peer);
    ASSERT_TRUE(fails_with(result, Errc::incompatible));
    EXPECT_EQ(result.error().field, field);
  };
  expect_refusal("type", [](Endpoint& peer) { peer.type = QueuePairType::unreliable_connection; });
  expect_refusal("fabric_id", [](Endpoint& peer) { peer.fabric_id ^= 1; });
  expect_refusal("partition_key",
                 [](Endpoint& peer) { peer.partition_key = PartitionKey{0x9234}; });
  QueuePair one = require(std::move(first).connect(second.endpoint()));
  QueuePair two = require(std::move(second).connect(one.endpoint()));
  check_message(one, two, sides.queue);
}

TEST(Connect, KeepsToThePeersMessageLimitUntilReset) {
  Sides sides;
  PreparedQueuePair prepared = require(QueuePair::prepare(sides.options));
  const std::uint32_t before = prepared.limits().max_message_bytes;
  Endpoint small = prepared.endpoint();
  small.max_message_bytes = 1000;
  QueuePair queue_pair = require(std::move(prepared).connect(small));
  EXPECT_EQ(queue_pair.limits().max_message_bytes, 1000u);
  Buffer source = require(sides.domain.allocate(1001));
  EXPECT_TRUE(
      fails_with(unsafe::post(queue_pair, Send{source.gather()}, WrId{1}), Errc::limit_exceeded));
  const PreparedQueuePair again = require(std::move(queue_pair).reset());
  EXPECT_EQ(again.limits().max_message_bytes, before);
  EXPECT_EQ(again.endpoint().max_message_bytes, before);
}

TEST(Connect, WorksWithItself) {
  Sides sides;
  PreparedQueuePair prepared = require(QueuePair::prepare(sides.options));
  const Endpoint self = prepared.endpoint();
  QueuePair queue_pair = require(std::move(prepared).connect(self));
  Buffer memory = require(sides.domain.allocate(20'000));
  fill(memory.bytes().first(10'000), test_seed());
  require(unsafe::post(queue_pair, Receive{memory.scatter(10'000)}, WrId{1}));
  require(unsafe::post(queue_pair, Send{memory.gather(0, 10'000)}, WrId{2}));
  for (const Completion& each : poll_many(sides.queue, 2)) EXPECT_TRUE(succeeded(each));
  EXPECT_TRUE(holds(memory.bytes().last(10'000), test_seed()));
}

TEST(Connect, WorksWithEveryAddressOfThePort) {
  const Context context = open_context();
  const Port port = require(context.first_active_port());
  for (const GidEntry& row : require(context.query_gid_table(port.number))) {
    SCOPED_TRACE("address " + std::to_string(row.index) + ": " + to_string(row.gid));
    ConnectedPair pair{
        {.both = [&](QueuePairOptions& options) { options.route.gid_index = row.index; }}};
    ASSERT_EQ(pair.local.queue_pair.endpoint().gids.size(), 1u);
    EXPECT_EQ(pair.local.queue_pair.endpoint().gids[0].gid, row.gid);
    exchange(pair);
  }
}

TEST(Connect, WorksWithEveryRouteOption) {
  ConnectedPair pair{{.both = [](QueuePairOptions& options) {
    options.route.service_level = 3;
    options.route.traffic_class = 0x20;
    options.route.flow_label = 0xabcde;
    options.route.hop_limit = 1;
    options.route.port = require(options.domain.get().context().first_active_port()).number;
  }}};
  exchange(pair);
  // The kernel chooses some of these for its own devices. soft0 returns what it was given.
  if (pair.context.transport() != Transport::soft) return;
  for (const Side* side : {&pair.local, &pair.remote}) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(
        soft_provider().query_qp(unsafe::native(side->queue_pair), &attributes, IBV_QP_AV, &init),
        0);
    const ibv_ah_attr& route = attributes.ah_attr;
    EXPECT_EQ(route.port_num, require(pair.context.first_active_port()).number);
    EXPECT_EQ(route.sl, 3);
    EXPECT_EQ(route.is_global != 0, side->queue_pair.agreement().path.global);
    if (route.is_global == 0) continue;  // No header to hold the rest.
    EXPECT_EQ(route.grh.traffic_class, 0x20);
    EXPECT_EQ(route.grh.flow_label, 0xabcdeu);
    EXPECT_EQ(route.grh.hop_limit, 1);
  }
}

TEST(Connect, WorksAcrossTwoContextsOfTheDevice) {
  Sides a;
  Sides b;
  PreparedQueuePair one = require(QueuePair::prepare(a.options));
  PreparedQueuePair two = require(QueuePair::prepare(b.options));
  const Endpoint one_endpoint = one.endpoint();
  QueuePair left = require(std::move(one).connect(two.endpoint()));
  QueuePair right = require(std::move(two).connect(one_endpoint));
  require(unsafe::post(right, Receive{}, WrId{1}));
  require(unsafe::post(left, send_immediate(9), WrId{2}));
  EXPECT_TRUE(succeeded(poll_one(a.queue)));
  EXPECT_EQ(poll_ok(b.queue).immediate(), 9u);
}

}  // namespace
}  // namespace verbatim::test
