// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/secure_stream.cpp
#include "network/secure_stream.hpp"

#include <random>

#include "network/session_world.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

using detail::SecureStream;
using detail::SessionEnd;
using Bytes = std::vector<std::byte>;

constexpr SecureStream::Key kKey{std::byte{42}};

struct Pair {
  explicit Pair(const SecureStream::Key& theirs = kKey, std::string_view job = "job")
      : client(SessionEnd::client, kKey, detail::job_id("job")),
        coordinator(SessionEnd::coordinator, theirs, detail::job_id(job)) {}
  static Bytes take(SecureStream& from) { return std::exchange(from.outgoing(), {}); }
  /// Exchanges both hellos.
  void greet() {
    coordinator.feed(take(client));
    EXPECT_EQ(require(coordinator.next()), std::nullopt);
    client.feed(take(coordinator));
    EXPECT_EQ(require(client.next()), std::nullopt);
    EXPECT_TRUE(client.greeted() && coordinator.greeted());
  }
  SecureStream client;
  SecureStream coordinator;
};

TEST(SecureStream, CarriesFramesBothWays) {
  Pair pair;
  pair.greet();
  pair.client.send(bytes_of("first"));
  pair.client.send(bytes_of("second"));
  pair.coordinator.feed(Pair::take(pair.client));
  EXPECT_EQ(require(pair.coordinator.next()), bytes_of("first"));
  EXPECT_EQ(require(pair.coordinator.next()), bytes_of("second"));
  EXPECT_EQ(require(pair.coordinator.next()), std::nullopt);
  pair.coordinator.trust();
  const Bytes large(3 << 20, std::byte{7});
  pair.coordinator.send(large);
  pair.client.feed(Pair::take(pair.coordinator));
  EXPECT_EQ(require(pair.client.next()), large);
}

TEST(SecureStream, DoesNotCareHowBytesAreCut) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  std::mt19937_64 random{seed};
  Pair pair;
  pair.greet();
  std::vector<Bytes> said;
  for (int i = 0; i < 50; ++i) {
    said.emplace_back(1 + random() % 3000, static_cast<std::byte>(i));
    pair.client.send(said.back());
  }
  const Bytes wire = Pair::take(pair.client);
  std::size_t heard = 0;
  pair.coordinator.trust();
  for (std::size_t at = 0; at < wire.size();) {
    const std::size_t size = std::min<std::size_t>(wire.size() - at, 1 + random() % 200);
    pair.coordinator.feed(std::span{wire}.subspan(at, size));
    at += size;
    while (auto frame = require(pair.coordinator.next())) EXPECT_EQ(*frame, said.at(heard++));
  }
  EXPECT_EQ(heard, said.size());
}

TEST(SecureStream, HidesWhatItCarries) {
  Pair pair;
  pair.greet();
  pair.client.send(bytes_of("a very secret key"));
  const Bytes wire = Pair::take(pair.client);
  const std::string_view text{reinterpret_cast<const char*>(wire.data()), wire.size()};
  EXPECT_FALSE(text.contains("secret"));
  EXPECT_EQ(wire.size(), 24 + 4 + 17 + 17u) << "as documented";
}

TEST(SecureStream, SendsNoFrameToWhoHasNotProvedItself) {
  Pair pair{SecureStream::Key{std::byte{43}}};
  pair.greet();  // Hellos are no secret.
  pair.client.send(bytes_of("believe me"));
  pair.coordinator.feed(Pair::take(pair.client));
  EXPECT_TRUE(fails_naming(pair.coordinator.next(), Errc::permission_denied, "secret"));
  EXPECT_TRUE(pair.coordinator.outgoing().empty());
}

TEST(SecureStream, AnswersAnotherJobWithItsHelloOnly) {
  Pair pair{kKey, "another job"};
  pair.coordinator.feed(Pair::take(pair.client));
  EXPECT_TRUE(fails_naming(pair.coordinator.next(), Errc::incompatible, "job"));
  const Bytes answer = Pair::take(pair.coordinator);
  EXPECT_EQ(answer.size(), detail::kHelloBytes);
  pair.client.feed(answer);
  EXPECT_TRUE(fails_naming(pair.client.next(), Errc::incompatible, "job"));
}

TEST(SecureStream, AnswersGarbageWithNothingAndAtOnce) {
  Pair pair;
  pair.coordinator.feed(bytes_of("GET "));
  EXPECT_TRUE(fails_with(pair.coordinator.next(), Errc::malformed)) << "before 56 bytes are there";
  EXPECT_TRUE(pair.coordinator.outgoing().empty());
}

/// Two frames of a client, each with its length.
struct Frames {
  Frames() {
    pair.greet();
    pair.client.send(bytes_of("one"));
    first = Pair::take(pair.client);
    pair.client.send(bytes_of("two"));
    second = Pair::take(pair.client);
  }
  Pair pair;
  Bytes first;
  Bytes second;
};

TEST(SecureStream, RefusesAFrameTwice) {
  Frames frames;
  frames.pair.coordinator.feed(frames.first);
  EXPECT_EQ(require(frames.pair.coordinator.next()), bytes_of("one"));
  frames.pair.coordinator.feed(std::span{frames.first}.subspan(24));
  EXPECT_TRUE(fails_with(frames.pair.coordinator.next(), Errc::malformed));
}

TEST(SecureStream, RefusesFramesInAnotherOrder) {
  Frames frames;
  frames.pair.coordinator.feed(std::span{frames.first}.first(24));
  frames.pair.coordinator.feed(frames.second);
  EXPECT_TRUE(fails_with(frames.pair.coordinator.next(), Errc::permission_denied));
}

TEST(SecureStream, RefusesAFrameWithAnyBitChanged) {
  for (std::size_t at = 0; at < 24 + 4 + 20; ++at) {
    if (at >= 24 && at < 28) continue;  // The length only says how much to wait for.
    Frames frames;
    frames.first[at] ^= std::byte{1};
    frames.pair.coordinator.feed(frames.first);
    EXPECT_FALSE(frames.pair.coordinator.next()) << at;
  }
}

TEST(SecureStream, RefusesOurOwnFrameBack) {
  Pair pair;
  pair.greet();
  pair.client.send(bytes_of("mirror"));
  pair.client.feed(Pair::take(pair.client));
  EXPECT_TRUE(fails_with(pair.client.next(), Errc::permission_denied)) << "each way has its key";
}

TEST(SecureStream, CapsAFrameBeforeAndAfterTrust) {
  const auto with_length = [](std::uint32_t length, bool trusted) {
    Pair pair;
    pair.greet();
    Bytes wire(28);
    std::memcpy(wire.data() + 24, &length, 4);
    if (trusted) pair.coordinator.trust();
    pair.coordinator.feed(wire);
    return pair.coordinator.next();
  };
  for (const bool trusted : {false, true}) {
    EXPECT_TRUE(fails_naming(with_length(17, trusted), Errc::malformed, "frame length",
                             {.value = 17, .limit = trusted ? 16u << 20 : 4096u}));
    EXPECT_TRUE(fails_with(with_length(0, trusted), Errc::malformed));
    EXPECT_TRUE(fails_with(with_length(0xffffffff, trusted), Errc::malformed));
  }
  EXPECT_TRUE(succeeds(with_length(4096, false)));
  EXPECT_TRUE(fails_with(with_length(4097, false), Errc::malformed));
  EXPECT_TRUE(succeeds(with_length(16 << 20, true)));
  EXPECT_TRUE(fails_with(with_length((16 << 20) + 1, true), Errc::malformed));
}

TEST(SecureStream, TakesNoMoreFromAStrangerThanItMaySend) {
  Pair pair;
  EXPECT_EQ(pair.coordinator.room(), 56u + 24 + 4 + 4096);
  pair.coordinator.feed(Bytes(3, std::byte{'V'}));
  EXPECT_EQ(pair.coordinator.room(), 56u + 24 + 4 + 4093);
}

}  // namespace
}  // namespace verbatim::test
