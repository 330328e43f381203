// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: frames carry records as they are; whatever else a peer sends is one error, in bounded time.
// Method: a pair of sockets, one end in the hands of the test; hostile bytes from a printed seed.
#include "channel/frame.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "support/require.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using detail::FrameKind;

detail::BoundedCall call(std::chrono::nanoseconds limit = 30s) {
  return {.operation = "test", .deadline = detail::deadline_after(limit)};
}

class FrameTest : public testing::Test {
 protected:
  FrameTest() { new_pair(); }
  void new_pair() {
    int both[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) != 0)
      throw SetupFailed("socketpair");
    ours = detail::FileDescriptor{both[0]};
    theirs = detail::FileDescriptor{both[1]};
  }
  void peer_sends(std::span<const std::byte> bytes) const {
    ASSERT_EQ(::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void peer_says(std::string_view text) const { peer_sends(std::as_bytes(std::span{text})); }
  void peer_leaves() { theirs = detail::FileDescriptor{}; }
  Result<std::size_t> receive(FrameKind kind, std::chrono::nanoseconds limit = 30s) {
    return detail::receive_frame(ours.get(), kind, into, call(limit));
  }
  /// What went wrong, as "code: field", or "" if nothing did.
  std::string complaint(FrameKind kind, std::chrono::nanoseconds limit = 30s) {
    const auto got = receive(kind, limit);
    return got ? "" : std::string{to_string(got.error().code)} + ": " + got.error().field;
  }

  detail::FileDescriptor ours;
  detail::FileDescriptor theirs;
  std::array<std::byte, detail::kMaxFrameBytes> into{};
};

std::vector<std::byte> bytes_of(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
  return bytes;
}

TEST_F(FrameTest, CarriesRecordsOfEverySizeInOrder) {
  for (const std::size_t size : {0uz, 1uz, 24uz, 222uz, detail::kMaxFrameBytes}) {
    const auto record = bytes_of(size);
    EXPECT_TRUE(succeeds(detail::send_frame(theirs.get(), FrameKind::greeting, record, call())));
    EXPECT_TRUE(succeeds(detail::send_frame(theirs.get(), FrameKind::done, {}, call())));
    ASSERT_EQ(require(receive(FrameKind::greeting)), size);
    EXPECT_TRUE(std::ranges::equal(record, std::span{into}.first(size)));
    EXPECT_EQ(require(receive(FrameKind::done)), 0u);  // Nothing beyond the frame was read.
  }
}

TEST_F(FrameTest, HasTheLayoutThatIsDocumented) {
  const auto record = bytes_of(300);
  require(detail::send_frame(theirs.get(), FrameKind::ready, record, call()));
  std::array<char, 8> header{};
  ASSERT_EQ(recv(ours.get(), header.data(), header.size(), 0), 8);
  EXPECT_EQ((std::string_view{header.data(), header.size()}),
            (std::string_view{"VBF1\x02\0\x2c\x01", 8}));
}

TEST_F(FrameTest, DoneIsTheFrameThatLinksSay) {
  require(detail::send_frame(theirs.get(), FrameKind::done, {}, call()));
  std::array<std::byte, 8> frame{};
  ASSERT_EQ(recv(ours.get(), frame.data(), frame.size(), 0), 8);
  EXPECT_EQ(frame, detail::kDoneFrame);
}

TEST_F(FrameTest, OfAnotherProtocolIsMalformed) {
  peer_says("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(complaint(FrameKind::greeting), "malformed: frame magic");
}

TEST_F(FrameTest, OfAnotherKindIsMalformed) {
  require(detail::send_frame(theirs.get(), FrameKind::done, {}, call()));
  EXPECT_EQ(complaint(FrameKind::greeting), "malformed: frame kind");
}

TEST_F(FrameTest, ThatIsTooLongIsRefusedBeforeItComes) {
  peer_says({"VBF1\x01\0\x01\x04", 8});  // 1025 bytes, none of which is ever sent.
  EXPECT_EQ(complaint(FrameKind::greeting), "malformed: frame length");
}

TEST_F(FrameTest, ThatIsTooLongForTheRecordIsRefused) {
  require(detail::send_frame(theirs.get(), FrameKind::ready, bytes_of(25), call()));
  const auto got =
      detail::receive_frame(ours.get(), FrameKind::ready, std::span{into}.first(24), call());
  ASSERT_TRUE(fails_with(got, Errc::malformed));
  EXPECT_EQ(got.error().value, 25u);
  EXPECT_EQ(got.error().limit, 24u);
}

TEST_F(FrameTest, CutOffAnywhereIsClosed) {
  const std::string_view whole{"VBF1\x01\0\x04\0data", 12};
  for (std::size_t size = 0; size < whole.size(); ++size) {
    new_pair();
    if (size > 0) peer_says(whole.substr(0, size));
    peer_leaves();
    EXPECT_EQ(complaint(FrameKind::greeting), "channel closed: the peer's greeting") << size;
  }
}

TEST_F(FrameTest, ThatNeverEndsIsTimedOut) {
  EXPECT_EQ(complaint(FrameKind::done, 10ms), "timed out: the peer's done");
  peer_says({"VBF1\x01\0\x04\0da", 10});
  EXPECT_EQ(complaint(FrameKind::greeting, 10ms), "timed out: the peer's greeting");
}

TEST_F(FrameTest, ByteByByteGainsAPeerNoTime) {
  std::atomic<bool> over{false};
  std::thread peer([&] {
    // A header, then a byte whenever the last one was taken, and never the end of it.
    peer_says({"VBF1\x01\0\0\x04", 8});
    int sent = 0;
    while (!over.load()) {
      if (sent < 1000 && ::send(theirs.get(), "x", 1, MSG_NOSIGNAL) == 1) ++sent;
      std::this_thread::yield();
    }
  });
  const auto start = Clock::now();
  EXPECT_EQ(complaint(FrameKind::greeting, 50ms), "timed out: the peer's greeting");
  EXPECT_LT(Clock::now() - start, 20s);
  over.store(true);
  peer.join();
}

TEST_F(FrameTest, SendToAPeerThatIsGoneIsClosedAndRaisesNoSignal) {
  peer_leaves();
  EXPECT_TRUE(
      fails_with(detail::send_frame(ours.get(), FrameKind::done, {}, call()), Errc::closed));
}

TEST_F(FrameTest, SendToAPeerThatDoesNotReadIsTimedOut) {
  const auto record = bytes_of(detail::kMaxFrameBytes);
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i)
    sent = detail::send_frame(ours.get(), FrameKind::greeting, record, call(10ms));
  EXPECT_TRUE(fails_with(sent, Errc::timed_out));
}

TEST_F(FrameTest, RandomBytesAreOneErrorOrAFrame) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random{seed};
  int frames = 0;
  for (int round = 0; round < 2000; ++round) {
    new_pair();
    // A good frame, cut or prolonged, with up to three bytes changed.
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
    std::array<std::byte, 24> small{};
    const auto got = detail::receive_frame(ours.get(), FrameKind::ready, small, call());
    if (got) {
      ++frames;
      EXPECT_LE(*got, small.size());
      EXPECT_TRUE(std::equal(small.begin(), small.begin() + static_cast<std::ptrdiff_t>(*got),
                             bytes.begin() + 8));
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
