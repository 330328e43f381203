// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/messages.cpp, network/hello.cpp
#include "network/messages.hpp"

#include <random>

#include "network/hello.hpp"
#include "network/session_world.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

using namespace detail;

/// An encoded message decodes, and encodes to the same bytes again.
template <class Message>
void goes_round(const Message& message) {
  const Bytes once = encode(message);
  EXPECT_EQ(require(kind_of(once)), Message::kKind);
  const auto body = std::span{once}.subspan(1);
  EXPECT_EQ(encode(require(decode<Message>(body))), once);
}

/// Each prefix of it is refused, or is a complete message with another meaning.
template <class Message>
void is_refused_in_part(const Message& message) {
  const Bytes whole = encode(message);
  const auto body = std::span{whole}.subspan(1);
  for (std::size_t size = 0; size < body.size(); ++size) {
    const Bytes part{body.begin(),
                     body.begin() + static_cast<std::ptrdiff_t>(size)};  // ASan sees its end.
    const auto decoded = decode<Message>(part);
    if (decoded)
      EXPECT_EQ(encode(*decoded).size(), size + 1);
    else
      EXPECT_TRUE(fails_with(decoded, Errc::malformed));
  }
}

template <class Message>
void is_refused_with_more(const Message& message) {
  Bytes whole = encode(message);
  whole.push_back(std::byte{0});
  EXPECT_TRUE(fails_naming(decode<Message>(std::span{whole}.subspan(1)), Errc::malformed,
                           "behind the message", {.value = 1}));
}

template <class Try>
void for_each_message(Try call) {
  call(JoinMessage{1, 2, 3, 4, 5, 6, bytes_of("record")});
  call(WelcomeMessage{5000});
  call(RefusedMessage{RefusedField::algorithm, 1, 2});
  call(MembersMessage{7, {{0, 1, 2, 3, bytes_of("a"), true}, {.rank = 1}, {2, 1, 2, 3, {}, true}}});
  call(ContributionMessage{Call::exchange, 9, bytes_of("bytes")});
  call(ContributionMessage{Call::meet, 9, {}});
  call(GatheredMessage{9, {bytes_of("one"), {}, bytes_of("three")}});
  call(FailedMessage{Call::offer, 3, FailedWhy::departed, {4, Departed::silent}, 5});
  call(OfferMessage{3, bytes_of("common"), {{1, bytes_of("own")}, {7, {}}}});
  call(OffersMessage{3, {{1, bytes_of("common"), bytes_of("own")}, {2, {}, {}}}});
  call(PingMessage{});
  call(PongMessage{});
  call(DepartedMessage{{{3, Departed::left}, {9, Departed::silent}}});
  call(AskMessage{3, 4});
  call(StateMessage{3, 4, bytes_of("state")});
  call(RegroupMessage{2, bytes_of("record")});
  call(WhoIsMissingMessage{Call::leave, 8});
  call(MissingMessage{8, 40, {1, 2, 3}});
  call(ByeMessage{});
  call(FarewellMessage{});
}

TEST(Messages, GoRound) {
  for_each_message([](const auto& message) { goes_round(message); });
}

TEST(Messages, AreRefusedInPart) {
  for_each_message([](const auto& message) { is_refused_in_part(message); });
}

TEST(Messages, OfFixedSizeAreRefusedWithMore) {
  is_refused_with_more(WelcomeMessage{});
  is_refused_with_more(RefusedMessage{});
  is_refused_with_more(FailedMessage{});
  is_refused_with_more(DepartedMessage{});
  is_refused_with_more(AskMessage{});
  is_refused_with_more(WhoIsMissingMessage{});
  is_refused_with_more(PingMessage{});
  is_refused_with_more(PongMessage{});
  is_refused_with_more(ByeMessage{});
  is_refused_with_more(FarewellMessage{});
  is_refused_with_more(MissingMessage{1, 16, std::vector<Rank>(16)});
}

TEST(Messages, HaveAKind) {
  EXPECT_TRUE(fails_naming(kind_of({}), Errc::malformed, "kind", {.value = 0, .limit = 1}));
  for (const int wrong : {0, 20, 255}) {
    const Bytes bytes{static_cast<std::byte>(wrong)};
    EXPECT_TRUE(fails_with(kind_of(bytes), Errc::malformed)) << wrong;
  }
}

TEST(Messages, AreRefusedWithMoreThanTheyMayCarry) {
  const auto body = [](const Bytes& message) { return Bytes{message.begin() + 1, message.end()}; };
  const Bytes large(kMaxRecordBytes + 1);
  EXPECT_TRUE(
      fails_with(decode<JoinMessage>(body(encode(JoinMessage{.record = large}))), Errc::malformed));
  EXPECT_TRUE(fails_with(decode<RegroupMessage>(body(encode(RegroupMessage{.record = large}))),
                         Errc::malformed));
  EXPECT_TRUE(fails_with(decode<StateMessage>(body(encode(StateMessage{.bytes = large}))),
                         Errc::malformed));
  EXPECT_TRUE(fails_with(decode<OfferMessage>(body(encode(OfferMessage{.common = large}))),
                         Errc::malformed));
  EXPECT_TRUE(fails_with(decode<OfferMessage>(body(encode(OfferMessage{.to = {{0, large}}}))),
                         Errc::malformed));
  EXPECT_TRUE(fails_with(
      decode<ContributionMessage>(body(encode(ContributionMessage{Call::meet, 1, bytes_of("x")}))),
      Errc::malformed));
  EXPECT_TRUE(
      fails_with(decode<ContributionMessage>(body(encode(ContributionMessage{Call::join, 1, {}}))),
                 Errc::malformed));
  EXPECT_TRUE(fails_with(
      decode<MembersMessage>(body(encode(MembersMessage{1, {{.record = large, .present = true}}}))),
      Errc::malformed));
}

TEST(Hello, GoesRound) {
  const Hello hello = new_hello(job_id("a job"));
  const auto bytes = encode(hello);
  const Hello again = require(decode_hello(bytes));
  EXPECT_EQ(again.version, 1);
  EXPECT_EQ(again.job, hello.job);
  EXPECT_EQ(again.nonce, hello.nonce);
  EXPECT_NE(new_hello(hello.job).nonce, hello.nonce);
  EXPECT_NE(job_id("another job"), hello.job);
  EXPECT_EQ(std::memcmp(bytes.data(), "VBN1\x01\0\0\0", 8), 0) << "as documented";
}

TEST(Hello, IsRefusedWhereItIsNone) {
  auto bytes = encode(Hello{});
  bytes[3] = std::byte{'2'};
  EXPECT_TRUE(fails_naming(decode_hello(bytes), Errc::malformed, "magic",
                           {.value = 0x324e4256, .limit = 0x314e4256}));
  bytes = encode(Hello{});
  bytes[6] = std::byte{1};
  EXPECT_TRUE(fails_naming(decode_hello(bytes), Errc::malformed, "zero", {.value = 1}));
  bytes = encode(Hello{.version = 0x0203});
  bytes[6] = std::byte{1};  // Another version may give it a meaning.
  EXPECT_TRUE(fails_naming(decode_hello(bytes), Errc::incompatible, "version",
                           {.value = 0x0203, .limit = 1}));
}

// Both ends derive the same keys from the same input, and any difference changes everything.
TEST(SessionKeys, FollowFromSecretJobAndNonces) {
  const auto keys_of = [](std::byte secret, std::byte job, std::byte client,
                          std::byte coordinator) {
    std::array<std::byte, 32> key{secret};
    SessionKeys keys;
    derive(keys, key, JobId{job}, Nonce{client}, Nonce{coordinator});
    return std::pair{keys.from_client, keys.from_coordinator};
  };
  const std::byte zero{0};
  const std::byte one{1};
  const auto keys = keys_of(one, one, one, one);
  EXPECT_EQ(keys, keys_of(one, one, one, one));
  EXPECT_NE(keys.first, keys.second);
  for (const auto& other : {keys_of(zero, one, one, one), keys_of(one, zero, one, one),
                            keys_of(one, one, zero, one), keys_of(one, one, one, zero)}) {
    EXPECT_NE(other.first, keys.first);
    EXPECT_NE(other.second, keys.second);
  }
}

}  // namespace
}  // namespace verbatim::test
