// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: frames carry records unchanged; anything else that a peer sends is one error.
// Method: a pair of sockets, one end controlled by the test; hostile bytes from a printed seed.
#include "channel/frame.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "support/require.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::test {
namespace {

using detail::FrameKind;

class FrameTest : public testing::Test {
 protected:
  FrameTest() { new_pair(); }
  void new_pair() {
    int both[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0)
      throw SetupFailed("socketpair");
    ours = detail::FileDescriptor{both[0]};
    theirs = detail::FileDescriptor{both[1]};
    reader = {};
  }
  void peer_sends(std::span<const std::byte> bytes) const {
    ASSERT_EQ(::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void peer_says(std::string_view text) const { peer_sends(std::as_bytes(std::span{text})); }
  void peer_leaves() { theirs = detail::FileDescriptor{}; }
  /// Sends frames from the peer's end.
  void peer_puts(FrameKind kind, std::span<const std::byte> payload) {
    writer.put(kind, payload);
    EXPECT_TRUE(require(writer.step(theirs.get(), "test")));
  }
  [[nodiscard]] Result<std::optional<detail::Frame>> step() {
    return reader.step(ours.get(), "test", detail::name_of(FrameKind::greeting));
  }
  /// What went wrong, as "code: field", or "" if nothing did.
  [[nodiscard]] std::string complaint() {
    const auto got = step();
    return got ? "" : std::string{to_string(got.error().code)} + ": " + got.error().field;
  }

  detail::FileDescriptor ours;
  detail::FileDescriptor theirs;
  detail::FrameReader reader;
  detail::FrameWriter writer;
};

std::vector<std::byte> bytes_of(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
  return bytes;
}

TEST_F(FrameTest, CarriesRecordsOfEverySizeInOrder) {
  for (const std::size_t size : {0uz, 1uz, 24uz, 222uz, detail::kMaxFrameBytes}) {
    const auto record = bytes_of(size);
    peer_puts(FrameKind::greeting, record);
    peer_puts(FrameKind::done, {});
    const auto first = require(step());
    ASSERT_TRUE(first);
    EXPECT_EQ(first->kind, FrameKind::greeting);
    EXPECT_TRUE(std::ranges::equal(record, first->payload));
    const auto second = require(step());  // Nothing beyond the first was lost.
    ASSERT_TRUE(second);
    EXPECT_EQ(second->kind, FrameKind::done);
    EXPECT_TRUE(second->payload.empty());
    EXPECT_FALSE(require(step()));
  }
}

TEST_F(FrameTest, HasTheLayoutThatIsDocumented) {
  peer_puts(FrameKind::ready, bytes_of(300));
  std::array<char, 8> header{};
  ASSERT_EQ(recv(ours.get(), header.data(), header.size(), 0), 8);
  EXPECT_EQ((std::string_view{header.data(), header.size()}),
            (std::string_view{"VBF1\x02\0\x2c\x01", 8}));
}

TEST_F(FrameTest, DoneIsTheFrameThatLinksSay) {
  peer_puts(FrameKind::done, {});
  std::array<std::byte, 8> frame{};
  ASSERT_EQ(recv(ours.get(), frame.data(), frame.size(), 0), 8);
  EXPECT_EQ(frame, detail::kDoneFrame);
}

TEST_F(FrameTest, OfAnotherProtocolIsMalformed) {
  peer_says("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(complaint(), "malformed: frame magic");
}

TEST_F(FrameTest, ThatIsTooLongIsRefusedBeforeItComes) {
  peer_says({"VBF1\x01\0\x01\x04", 8});  // 1025 bytes, none of which is ever sent.
  EXPECT_EQ(complaint(), "malformed: frame length");
}

TEST_F(FrameTest, CutOffAnywhereIsClosed) {
  const std::string_view whole{"VBF1\x01\0\x04\0data", 12};
  for (std::size_t size = 0; size < whole.size(); ++size) {
    new_pair();
    if (size > 0) peer_says(whole.substr(0, size));
    peer_leaves();
    EXPECT_EQ(complaint(), "channel closed: the peer's greeting") << size;
  }
}

TEST_F(FrameTest, ComesByteByByteAndIsNotThereBeforeItsEnd) {
  const std::string_view whole{"VBF1\x01\0\x04\0data", 12};
  EXPECT_FALSE(require(step()));
  EXPECT_EQ(reader.arrived(), 0u);
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    peer_says(whole.substr(i, 1));
    EXPECT_FALSE(require(step())) << i;
    EXPECT_EQ(reader.arrived(), i + 1);
    EXPECT_EQ(reader.wanted(), i + 1 < detail::kFrameHeaderBytes ? 8u : 12u) << i;
  }
  peer_says(whole.substr(whole.size() - 1));
  const auto frame = require(step());
  ASSERT_TRUE(frame);
  EXPECT_TRUE(std::ranges::equal(frame->payload, std::as_bytes(std::span{whole.substr(8)})));
}

TEST_F(FrameTest, SendToAPeerThatIsGoneIsClosedAndRaisesNoSignal) {
  peer_leaves();
  writer.put(FrameKind::done, {});
  EXPECT_TRUE(fails_with(writer.step(ours.get(), "test"), Errc::closed));
}

TEST_F(FrameTest, SendToAPeerThatDoesNotReadGoesOnWhenItDoes) {
  const auto record = bytes_of(detail::kMaxFrameBytes);
  std::size_t sent = 0;
  do {
    ASSERT_LT(++sent, 100'000u);
    writer.put(FrameKind::greeting, record);
  } while (require(writer.step(theirs.get(), "test")));
  EXPECT_FALSE(writer.empty());
  for (std::size_t received = 0; received < sent; ++received) {
    const auto frame = require(step());
    ASSERT_TRUE(frame) << received << " of " << sent;
    EXPECT_TRUE(std::ranges::equal(frame->payload, record));
    static_cast<void>(require(writer.step(theirs.get(), "test")));
  }
  EXPECT_TRUE(writer.empty());
}

TEST_F(FrameTest, RandomBytesAreOneErrorOrAFrame) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random{seed};
  int frames = 0;
  for (int round = 0; round < 2000; ++round) {
    new_pair();
    // A valid frame, cut or extended, with up to three bytes changed.
    std::vector<std::byte> bytes(8 + random() % 64);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    const std::string_view header{"VBF1\x02\0", 6};
    for (std::size_t i = 0; i < header.size(); ++i) bytes[i] = static_cast<std::byte>(header[i]);
    bytes[6] = static_cast<std::byte>(random() % 64);
    bytes[7] = std::byte{};
    for (auto changes = random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    peer_sends(std::span{bytes}.first(1 + random() % bytes.size()));
    peer_leaves();
    const auto got = step();
    if (got) {
      ASSERT_TRUE(*got) << "the peer has left: there is nothing to wait for";
      ++frames;
      EXPECT_TRUE(std::ranges::equal((*got)->payload,
                                     std::span{bytes}.subspan(8).first((*got)->payload.size())));
    } else {
      EXPECT_TRUE(got.error() == Errc::malformed || got.error() == Errc::closed)
          << to_string(got.error());
      EXPECT_STRNE(got.error().field, "");
    }
  }
  EXPECT_GT(frames, 0);
  EXPECT_LT(frames, 2000);
}

}  // namespace
}  // namespace verbatim::test
