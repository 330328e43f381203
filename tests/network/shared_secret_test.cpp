// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: Listener and dial() meet if both know the secret, and not otherwise; what crosses the wire
//       after the proof is of no use to others.
// Method: the authenticators alone, message by message; then meetings on the software device.
// Covers: network/shared_secret.cpp
#include "verbatim/network/shared_secret.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "support/require.hpp"
#include "verbatim/channel/rendezvous.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

/// Much more than a meeting takes.
constexpr std::chrono::seconds kMeeting{60};

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

std::unique_ptr<Authenticator> side(const Secret& secret) { return *admit_by_secret(secret)({}); }

/// Lets both talk until both are satisfied. Returns whether they got that far.
bool agree(Authenticator& one, Authenticator& other) {
  Bytes from_one;
  Bytes from_other;
  for (int round = 0; round < Authenticator::kMaxRounds; ++round) {
    auto first = one.step(from_other);
    auto second = other.step(from_one);
    if (!first || !second) return false;
    if (first->satisfied && second->satisfied) return true;
    from_one = std::move(first->message);
    from_other = std::move(second->message);
  }
  return false;
}

TEST(SharedSecret, BothWhoKnowItAgree) {
  const Secret secret = Secret::random();
  const auto one = side(secret);
  const auto other = side(secret);
  ASSERT_TRUE(agree(*one, *other));
  for (const std::string_view text : {"endpoint", "", "private data"}) {
    const Bytes sealed = *one->seal(bytes_of(text));
    EXPECT_EQ(*other->open(sealed), bytes_of(text));
    EXPECT_EQ(*one->open(*other->seal(bytes_of(text))), bytes_of(text));
    if (!text.empty()) {
      EXPECT_TRUE(std::ranges::search(sealed, bytes_of(text)).empty()) << "in the clear";
    }
  }
}

TEST(SharedSecret, AnotherSecretIsRefused) {
  const auto one = side(Secret::random());
  const auto other = side(Secret::random());
  EXPECT_FALSE(agree(*one, *other));
}

TEST(SharedSecret, WhoRepeatsWhatWeSayIsRefused) {
  const auto one = side(Secret::random());
  const auto said = one->step({});
  ASSERT_TRUE(said);
  EXPECT_EQ(one->step(said->message).error().code, Errc::permission_denied);
}

TEST(SharedSecret, ProofOfAnotherMeetingIsRefused) {
  const Secret secret = Secret::random();
  const auto one = side(secret);
  const auto other = side(secret);
  const Bytes number = one->step({})->message;
  static_cast<void>(other->step({}));
  const Bytes proof = other->step(number)->message;
  const auto later = side(secret);  // It has another number, so the old proof does not fit.
  static_cast<void>(later->step({}));
  static_cast<void>(later->step(bytes_of("01234567890123456789012345678901")));
  EXPECT_EQ(later->step(proof).error().code, Errc::permission_denied);
}

TEST(SharedSecret, ChangedAndRepeatedRecordsAreRefused) {
  const Secret secret = Secret::random();
  const auto one = side(secret);
  const auto other = side(secret);
  ASSERT_TRUE(agree(*one, *other));
  const Bytes sealed = *one->seal(bytes_of("endpoint"));
  ASSERT_TRUE(other->open(sealed));
  EXPECT_FALSE(other->open(sealed)) << "a second time";
  Bytes changed = *other->seal(bytes_of("endpoint"));
  changed.back() ^= std::byte{1};
  EXPECT_FALSE(one->open(changed));
  EXPECT_FALSE(side(secret)->open({})) << "shorter than any";
}

class SecretMeeting : public testing::Test {
 protected:
  Result<Connection> meet(const Secret& here, const Secret& there) {
    ListenOptions listening{.admit = admit_by_secret(here),
                            .private_data = bytes_of("hello"),
                            .handshake_timeout = kMeeting};
    const Listener listener = require(Listener::open(domain, "127.0.0.1:0", listening));
    std::optional<Connection> accepted;  // Lives until the other side has met it.
    const std::jthread accepting{[&](const std::stop_token& over) {
      while (!accepted && !over.stop_requested())
        if (auto client = listener.accept(10ms)) accepted.emplace(std::move(*client));
    }};
    return dial(domain, listener.address(),
                {.deadline = kMeeting, .admit = admit_by_secret(there)});
  }
  Context context = require(open_device("soft0"));
  ProtectionDomain domain = require(context.allocate_domain());
};

TEST_F(SecretMeeting, SucceedsWithTheSameSecret) {
  const Secret secret = Secret::random();
  const auto met = meet(secret, secret);
  ASSERT_TRUE(met) << to_string(met.error());
  EXPECT_EQ(met->peer.private_data, bytes_of("hello"));
}

TEST_F(SecretMeeting, IsRefusedWithAnother) {
  const auto met = meet(Secret::random(), Secret::random());
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, Errc::permission_denied) << to_string(met.error());
}

}  // namespace
}  // namespace verbatim::test
