// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a record survives the way to the peer, and any other bytes are refused without harm.
// Method: one byte of a valid record at a time, then random damage (seeded).
#include "verbatim/verbs/endpoint.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "support/endpoints.hpp"
#include "support/seed.hpp"
#include "verbatim/base/check.hpp"

namespace verbatim {
namespace {

using Bytes = std::vector<std::byte>;
using test::endpoint;

// The offsets of the fields, written out so that a change of the format shows here.
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kLengthAt = 6;
constexpr std::size_t kGidCountAt = 53;
constexpr std::size_t kFirstGidAt = 54;
constexpr std::size_t kGidBytes = 21;

Bytes with_byte(Bytes bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

Bytes with_length(Bytes bytes, std::size_t length) {
  return with_byte(with_byte(std::move(bytes), kLengthAt, length & 0xff), kLengthAt + 1,
                   static_cast<unsigned>(length >> 8));
}

TEST(EndpointRecord, RoundTripKeepsEveryField) {
  EXPECT_EQ(decode_endpoint(encode(endpoint())).value(), endpoint());
  EXPECT_EQ(decode_endpoint(encode(Endpoint{})).value(), Endpoint{});
}

TEST(EndpointRecord, HasTheBytesOfVersionOne) {
  const auto bytes = encode(endpoint());
  ASSERT_EQ(bytes.size(), kFirstGidAt + 2 * kGidBytes);
  const unsigned expected[] = {
      'V',  'B',  'E',  'P',  1,    0,    96,   0,                 // magic, version, length
      8,    7,    6,    5,    4,    3,    2,    1,                 // nonce
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,              // fabric_id
      1,    2,    3,    7,    0x22, 0x21, 0xff, 0xff,              // transport to partition_key
      0x33, 0x32, 0x31, 0,    0x43, 0x42, 0x41, 0,                 // queue_pair, psn
      0x54, 0x53, 0x52, 0x51, 0,    0,    0,    0x40,              // queue_key, max_message_bytes
      3,    16,   17,   20,   9,    2,                             // mtu to gid_count
      0,    0,    0,    0,    0,    0,    0,    0,                 // the first gid ...
      0,    0,    0xff, 0xff, 10,   0,    0,    1,    3, 0, 0, 0,  // ... and its index
      2};                                                          // ... and its type
  for (std::size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected[i]) << "byte " << i;
}

TEST(EndpointRecord, LargestStaysBelowTheLimit) {
  Endpoint full = endpoint();
  full.gids.resize(Endpoint::kMaxGids);
  EXPECT_LE(encode(full).size(), 512u);
  EXPECT_EQ(decode_endpoint(encode(full)).value(), full);
}

TEST(EndpointRecord, TooManyGidsAreMisuse) {
  set_contract_handler([](const ContractViolation& violation) { throw violation; });
  Endpoint overfull = endpoint();
  overfull.gids.resize(Endpoint::kMaxGids + 1);
  EXPECT_THROW(static_cast<void>(encode(overfull)), ContractViolation);
  set_contract_handler(nullptr);
}

TEST(EndpointRecord, RefusesEveryTruncation) {
  const auto bytes = encode(endpoint());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto result = decode_endpoint(cut);
    ASSERT_FALSE(result) << size;
    EXPECT_EQ(result.error(), Errc::malformed) << size;
    EXPECT_STREQ(result.error().operation, "decode_endpoint");
    EXPECT_STRNE(result.error().field, "") << size;
  }
}

TEST(EndpointRecord, RefusesEveryTruncationThatLiesAboutItsLength) {
  const auto bytes = encode(endpoint());
  std::set<std::string> fields;
  for (std::size_t size = kLengthAt + 2; size < bytes.size(); ++size) {
    const auto cut = Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto result = decode_endpoint(with_length(cut, size));
    ASSERT_FALSE(result) << size;
    EXPECT_EQ(result.error().value, size);
    EXPECT_GT(result.error().limit, size);
    fields.insert(result.error().field);
  }
  EXPECT_TRUE(fields.contains("nonce"));
  EXPECT_TRUE(fields.contains("gid_count"));
  EXPECT_TRUE(fields.contains("gid_type"));
  EXPECT_GE(fields.size(), 20u);  // Each field is the missing one at some length.
}

TEST(EndpointRecord, RefusesTrailingBytes) {
  auto bytes = encode(endpoint());
  bytes.push_back(std::byte{0});
  EXPECT_STREQ(decode_endpoint(bytes).error().field, "length");
  EXPECT_STREQ(decode_endpoint(with_length(bytes, bytes.size())).error().field, "length");
}

TEST(EndpointRecord, RefusesHostileLengths) {
  const auto bytes = encode(endpoint());
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{8}, bytes.size() - 1, bytes.size() + 1, std::size_t{0xffff}}) {
    const auto result = decode_endpoint(with_length(bytes, length));
    ASSERT_FALSE(result) << length;
    EXPECT_STREQ(result.error().field, "length");
    EXPECT_EQ(result.error().value, length);
    EXPECT_EQ(result.error().limit, bytes.size());
  }
  EXPECT_FALSE(decode_endpoint(Bytes(1u << 20, std::byte{0xff})));
}

struct Damage {
  std::size_t at;
  unsigned value;
  const char* field;
  std::uint64_t found;
};

class DamagedEndpointRecord : public testing::TestWithParam<Damage> {};

TEST_P(DamagedEndpointRecord, IsRefusedByItsField) {
  const auto& [at, value, field, found] = GetParam();
  const auto result = decode_endpoint(with_byte(encode(endpoint()), at, value));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::malformed);
  EXPECT_STREQ(result.error().operation, "decode_endpoint");
  EXPECT_STREQ(result.error().field, field);
  EXPECT_EQ(result.error().value, found);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, DamagedEndpointRecord,
    testing::Values(
        Damage{0, 'X', "magic", 0x50454258}, Damage{kVersionAt, 0, "version", 0},
        Damage{kVersionAt, 2, "version", 2}, Damage{kVersionAt + 1, 1, "version", 0x101},
        Damage{24, 3, "transport", 3}, Damage{25, 3, "link_layer", 3}, Damage{26, 1, "type", 1},
        Damage{26, 5, "type", 5}, Damage{27, 8, "flags", 8},
        Damage{35, 1, "queue_pair", 0x01313233}, Damage{39, 0x80, "psn", 0x80414243},
        Damage{48, 0, "mtu", 0}, Damage{48, 6, "mtu", 6}, Damage{51, 32, "ack_timeout", 32},
        Damage{52, 255, "min_rnr_timer", 255}, Damage{kGidCountAt, 9, "gid_count", 9},
        Damage{kGidCountAt, 255, "gid_count", 255}, Damage{kGidCountAt, 3, "gid", 96},
        Damage{kGidCountAt, 1, "length", 96}, Damage{kFirstGidAt + 20, 3, "gid_type", 3}));

TEST(EndpointRecord, SurvivesRandomEndpoints) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  for (int i = 0; i < 2000; ++i) {
    const Endpoint made = test::random_endpoint(random);
    ASSERT_EQ(decode_endpoint(encode(made)).value(), made) << "round " << i;
  }
}

// The record has no slack: whatever is accepted is exactly what encode() would write.
TEST(EndpointRecord, WhateverDecodesEncodesToTheSameBytes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    auto bytes = encode(test::random_endpoint(random));
    for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
    const auto result = decode_endpoint(bytes);
    if (result) {
      ++accepted;
      ASSERT_EQ(encode(*result), bytes) << "round " << i;
    } else {
      ASSERT_EQ(result.error(), Errc::malformed) << "round " << i;
      ASSERT_STRNE(result.error().field, "") << "round " << i;
    }
  }
  EXPECT_GT(accepted, 0);  // Otherwise the test shows nothing.
}

TEST(EndpointRecord, RandomBytesDoNoHarm) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  const auto start = encode(endpoint());
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(random() % 300);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    // A valid header leads the decoder further in.
    if (bytes.size() >= 8 && i % 2 == 0) {
      std::copy_n(start.begin(), 8, bytes.begin());
      bytes = with_length(bytes, bytes.size());
    }
    if (const auto result = decode_endpoint(bytes); !result) {
      ASSERT_EQ(result.error(), Errc::malformed) << "round " << i;
    }
  }
}

TEST(PacketSequenceNumber, HasTwentyFourBits) {
  EXPECT_EQ(PacketSequenceNumber{}.value(), 0u);
  EXPECT_EQ(PacketSequenceNumber::from_value(0xffffff).value().value(), 0xffffffu);
  const auto result = PacketSequenceNumber::from_value(0x1000000);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::invalid_argument);
  EXPECT_STREQ(result.error().field, "psn");
  EXPECT_EQ(result.error().limit, 0xffffffu);
}

TEST(PacketSequenceNumber, RandomOnesSpreadOverTheWholeRange) {
  std::uint32_t seen = 0;
  std::set<std::uint32_t> values;
  for (int i = 0; i < 200; ++i) {
    const auto psn = PacketSequenceNumber::random().value();
    EXPECT_LE(psn, 0xffffffu);
    seen |= psn;
    values.insert(psn);
  }
  EXPECT_EQ(seen, 0xffffffu);  // A bit that stays 0 in 200 draws: once in 2^176 runs.
  EXPECT_GT(values.size(), 150u);
}

TEST(PacketSequenceNumber, ThreadsDrawDifferentOnes) {
  std::vector<std::uint32_t> drawn[2];
  {
    std::vector<std::jthread> threads;
    for (auto& mine : drawn)
      threads.emplace_back([&mine] {
        for (int i = 0; i < 50; ++i) mine.push_back(PacketSequenceNumber::random().value());
      });
  }
  EXPECT_NE(drawn[0], drawn[1]);
}

TEST(QueuePairType, HasTheVerbsValuesAndNames) {
  EXPECT_EQ(std::to_underlying(QueuePairType::reliable_connection), IBV_QPT_RC);
  EXPECT_EQ(std::to_underlying(QueuePairType::unreliable_connection), IBV_QPT_UC);
  EXPECT_EQ(std::to_underlying(QueuePairType::unreliable_datagram), IBV_QPT_UD);
  EXPECT_STREQ(to_string(QueuePairType::reliable_connection), "RC");
  EXPECT_STREQ(to_string(QueuePairType::unreliable_connection), "UC");
  EXPECT_STREQ(to_string(QueuePairType::unreliable_datagram), "UD");
  EXPECT_STREQ(to_string(static_cast<QueuePairType>(77)), "unknown type");
}

}  // namespace
}  // namespace verbatim
