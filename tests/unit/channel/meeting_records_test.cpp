// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each record of a meeting is decoded unchanged; anything else is one error.
// Method: round trips; every cut, every changed byte, random bytes from a printed seed.
#include "channel/meeting_records.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "channel/frame.hpp"
#include "support/require.hpp"
#include "verbatim/channel/admission.hpp"

namespace verbatim::test {
namespace {

using Bytes = std::vector<std::byte>;

Endpoint sound_endpoint() {
  Endpoint endpoint;
  endpoint.nonce = 0x1122334455667788;
  endpoint.type = QueuePairType::reliable_connection;
  endpoint.queue_pair = QpNumber{77};
  endpoint.link_layer = LinkLayer::infiniband;
  endpoint.lid = Lid{3};
  endpoint.max_message_bytes = 1u << 30;
  return endpoint;
}

TEST(MeetingRecords, GreetingTellsVersionAndProof) {
  for (const bool asks : {false, true})
    EXPECT_EQ(require(detail::decode_greeting(detail::encode(detail::Greeting{asks}), "test"))
                  .authenticates,
              asks);
  Bytes other = detail::encode(detail::Greeting{});
  other[4] = std::byte{3};
  other.resize(other.size() + 40);  // A later version may add anything.
  const auto later = detail::decode_greeting(other, "test");
  ASSERT_TRUE(fails_with(later, Errc::malformed));
  EXPECT_STREQ(later.error().field, "version");
  EXPECT_EQ(later.error().value, 3u);
  EXPECT_EQ(later.error().limit, 2u);
}

TEST(MeetingRecords, GreetingIsAnEndpointOfAnotherVersionToTheFirst) {
  // The first version read its peer's first frame with this function.
  const auto read = decode_endpoint(detail::encode(detail::Greeting{}));
  ASSERT_TRUE(fails_with(read, Errc::malformed));
  EXPECT_STREQ(read.error().field, "version");
}

TEST(MeetingRecords, IntroductionCarriesEndpointAndData) {
  const Endpoint endpoint = sound_endpoint();
  for (const std::size_t size : {0uz, 1uz, kMaxPrivateDataBytes}) {
    const Bytes data(size, std::byte{9});
    const Bytes record =
        detail::encode(detail::Introduction{.endpoint = endpoint, .private_data = data});
    EXPECT_LE(record.size() + 256, detail::kMaxFrameBytes);  // Room for a seal.
    const auto back = require(detail::decode_introduction(record, "test"));
    EXPECT_EQ(encode(back.endpoint), encode(endpoint));
    EXPECT_EQ(back.private_data, data);
  }
}

TEST(MeetingRecords, IntroductionWithTooMuchDataIsRefused) {
  const Bytes record = detail::encode(detail::Introduction{
      .endpoint = sound_endpoint(), .private_data = Bytes(kMaxPrivateDataBytes + 1)});
  const auto refused = detail::decode_introduction(record, "test");
  ASSERT_TRUE(fails_with(refused, Errc::malformed));
  EXPECT_EQ(refused.error().value, kMaxPrivateDataBytes + 1);
  EXPECT_EQ(refused.error().limit, kMaxPrivateDataBytes);
}

TEST(MeetingRecords, IntroductionCutAnywhereIsMalformedOrHasLessData) {
  const Bytes record = detail::encode(
      detail::Introduction{.endpoint = sound_endpoint(), .private_data = Bytes(5, std::byte{1})});
  for (std::size_t size = 0; size < record.size(); ++size) {
    const auto read = detail::decode_introduction(std::span{record}.first(size), "test");
    if (read)
      EXPECT_EQ(read->private_data.size(), size + 5 - record.size());
    else
      EXPECT_EQ(read.error(), Errc::malformed);
    EXPECT_EQ(read.has_value(), size + 5 >= record.size()) << size;
  }
}

TEST(MeetingRecords, ProofIsBounded) {
  const detail::Proof proof{.satisfied = true, .message = Bytes(512, std::byte{4})};
  const auto back = require(detail::decode_proof(detail::encode(proof), "test"));
  EXPECT_TRUE(back.satisfied);
  EXPECT_EQ(back.message, proof.message);
  EXPECT_TRUE(fails_with(detail::decode_proof({}, "test"), Errc::malformed));
  EXPECT_TRUE(fails_with(detail::decode_proof(Bytes(514), "test"), Errc::malformed));
  EXPECT_TRUE(fails_with(detail::decode_proof(Bytes(1, std::byte{2}), "test"), Errc::malformed));
}

TEST(MeetingRecords, RefusalSaysWhyInPrint) {
  const Bytes record = detail::encode_refusal(
      {.code = Errc::busy, .field = "a name that is longer than an error's text"});
  const Error told = detail::decode_refusal(record, "dial");
  EXPECT_EQ(told, Errc::busy);
  EXPECT_STREQ(told.operation, "dial");
  EXPECT_STREQ(told.field, "refused by the peer");
  EXPECT_EQ(told.text_view(), "a name that is longer t");
  // A code without a wire number only says that the connection is over.
  EXPECT_EQ(detail::decode_refusal(detail::encode_refusal({.code = Errc::driver}), "dial"),
            Errc::closed);
  const Bytes rude{std::byte{1}, std::byte{0x1b}, std::byte{'['}, std::byte{0xff}};
  EXPECT_EQ(detail::decode_refusal(rude, "dial").text_view(), ".[.");
  EXPECT_EQ(detail::decode_refusal({}, "dial"), Errc::malformed);
  EXPECT_EQ(detail::decode_refusal(Bytes(1, std::byte{99}), "dial"), Errc::malformed);
  EXPECT_EQ(detail::decode_refusal(Bytes(25), "dial"), Errc::malformed);
}

TEST(MeetingRecords, RandomBytesAreOneErrorOrARecord) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random{seed};
  const Bytes sound =
      detail::encode(detail::Introduction{.endpoint = sound_endpoint(), .private_data = Bytes(30)});
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = sound;
    if (random() % 4 == 0) bytes.resize(random() % detail::kMaxFrameBytes);
    for (auto changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto introduction = detail::decode_introduction(bytes, "test");
    read += introduction.has_value() ? 1 : 0;
    if (!introduction) {
      EXPECT_EQ(introduction.error(), Errc::malformed);
      EXPECT_STRNE(introduction.error().field, "");
    }
    if (const auto proof = detail::decode_proof(bytes, "test"); proof) {
      EXPECT_LE(proof->message.size(), Authenticator::kMaxMessageBytes);
    }
    static_cast<void>(detail::decode_refusal(bytes, "test"));
    if (const auto greeting = detail::decode_greeting(bytes, "test"); !greeting) {
      EXPECT_EQ(greeting.error(), Errc::malformed);
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 20'000);
}

}  // namespace
}  // namespace verbatim::test
