// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Endpoints for tests: one with every field set, and any number of random ones.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "verbatim/verbs/endpoint.hpp"

namespace verbatim::test {

inline Gid gid(const char* text) {
  Gid result;
  EXPECT_EQ(inet_pton(AF_INET6, text, result.bytes.data()), 1) << text;
  return result;
}

/// On Ethernet, with no field at its default.
inline Endpoint endpoint() {
  Endpoint endpoint;
  endpoint.nonce = 0x0102030405060708;
  endpoint.transport = Transport::kernel_software;
  endpoint.fabric_id = 0x1112131415161718;
  endpoint.link_layer = LinkLayer::ethernet;
  endpoint.lid = Lid{0x2122};
  endpoint.gids = {{gid("::ffff:10.0.0.1"), 3, GidType::roce_v2},
                   {gid("fe80::1"), 1, GidType::roce_v1}};
  endpoint.grh_required = true;
  endpoint.type = QueuePairType::unreliable_connection;
  endpoint.queue_pair = QpNumber{0x313233};
  endpoint.psn = PacketSequenceNumber::from_value(0x414243).value();
  endpoint.partition_key = PartitionKey{0xffff};
  endpoint.queue_key = QueueKey{0x51525354};
  endpoint.mtu = MaximumTransferUnit::bytes_1024;
  endpoint.read_atomic_initiator = 16;
  endpoint.read_atomic_responder = 17;
  endpoint.max_message_bytes = 1u << 30;
  endpoint.ack_timeout = AckTimeout::limited(20).value();
  endpoint.min_rnr_timer = MinRnrTimer::from_code(9).value();
  endpoint.atomics = true;
  endpoint.remote_write = true;
  return endpoint;
}

/// Every field anywhere in its range; the GIDs are from a small set, so that two endpoints often
/// share a kind of address.
inline Endpoint random_endpoint(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  static const Gid kGids[] = {
      gid("::ffff:10.0.0.1"), gid("::ffff:10.0.0.2"), gid("::ffff:10.0.1.1"),
      gid("2001:db8::1"),     gid("2001:db8::2"),     gid("2001:db8:0:1::1"),
      gid("fe80::1"),         gid("fe80::2"),         gid("::")};
  Endpoint endpoint;
  endpoint.nonce = random();
  endpoint.transport = static_cast<Transport>(below(3));
  endpoint.fabric_id = random();
  endpoint.link_layer = static_cast<LinkLayer>(below(3));
  endpoint.lid = Lid{static_cast<std::uint16_t>(random())};
  for (std::uint64_t count = below(Endpoint::kMaxGids + 1); count > 0; --count)
    endpoint.gids.push_back({kGids[below(std::size(kGids))], static_cast<std::uint32_t>(below(6)),
                             static_cast<GidType>(below(3))});
  endpoint.grh_required = below(2) != 0;
  endpoint.type = static_cast<QueuePairType>(2 + below(3));
  endpoint.queue_pair = QpNumber{static_cast<std::uint32_t>(below(1u << 24))};
  endpoint.psn =
      PacketSequenceNumber::from_value(static_cast<std::uint32_t>(below(1u << 24))).value();
  endpoint.partition_key = PartitionKey{static_cast<std::uint16_t>(random())};
  endpoint.queue_key = QueueKey{static_cast<std::uint32_t>(random())};
  endpoint.mtu = static_cast<MaximumTransferUnit>(1 + below(5));
  endpoint.read_atomic_initiator = static_cast<std::uint8_t>(random());
  endpoint.read_atomic_responder = static_cast<std::uint8_t>(random());
  endpoint.max_message_bytes = static_cast<std::uint32_t>(random());
  endpoint.ack_timeout = AckTimeout::from_code(static_cast<unsigned>(below(32))).value();
  endpoint.min_rnr_timer = MinRnrTimer::from_code(static_cast<unsigned>(below(32))).value();
  endpoint.atomics = below(2) != 0;
  endpoint.remote_write = below(2) != 0;
  return endpoint;
}

}  // namespace verbatim::test
