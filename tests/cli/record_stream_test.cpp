// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: records come across whole and in order; bad input, silence and the peer's end are errors
//       that the caller can tell apart.
// Method: one end of a socket pair, and bytes written by hand into the other.
#include "record_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Clock = RecordStream::Clock;

struct RecordStreamTest : testing::Test {
  RecordStreamTest() { connect(nullptr); }
  void connect(RecordStream::Cancelled is_cancelled) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    peer = detail::FileDescriptor{ends[0]};
    stream.emplace(detail::PrivateDescriptor{ends[1]}, is_cancelled);
  }
  void put(std::string_view bytes) const {
    ASSERT_EQ(::write(peer.get(), bytes.data(), bytes.size()), std::ssize(bytes));
  }
  void hang_up() { peer = detail::FileDescriptor{}; }
  /// Of the next read(); would_block for a record.
  Errc next(Clock::duration limit = 5s) {
    const auto record = stream->read(Clock::now() + limit);
    return record ? Errc::would_block : record.error().code;
  }
  detail::FileDescriptor peer;
  std::optional<RecordStream> stream;
};

TEST_F(RecordStreamTest, RecordsComeInOrderHoweverTheyAreCut) {
  put("{\"a\":1}\n{\"a\"");
  EXPECT_EQ(stream->read(Clock::now() + 5s).value()["a"], 1);
  EXPECT_TRUE(stream->is_readable());
  EXPECT_EQ(next(10ms), Errc::timed_out);  // The rest is not there yet.
  put(":2}\n");
  EXPECT_EQ(stream->read(Clock::now() + 5s).value()["a"], 2);
  EXPECT_FALSE(stream->is_readable());
}

TEST_F(RecordStreamTest, WritesOneLine) {
  ASSERT_TRUE(stream->write({{"b", "x\ny"}}, Clock::now() + 5s));
  char line[32] = "";
  ASSERT_GT(::read(peer.get(), line, sizeof line - 1), 0);
  EXPECT_STREQ(line, "{\"b\":\"x\\ny\"}\n");
}

TEST_F(RecordStreamTest, WhatIsNotAnObjectIsMalformedAndTheNextLineCounts) {
  for (const char* const line : {"GET / HTTP/1.1\r", "", "[1]", "7", "{", "{\"a\":\"\xff\"}"}) {
    put(std::string{line} + "\n");
    EXPECT_EQ(next(), Errc::malformed) << line;
  }
  put("{}\n");
  EXPECT_EQ(next(), Errc::would_block);
}

TEST_F(RecordStreamTest, ALineHasABound) {
  const std::string much(4096, 'x');
  Errc code = Errc::timed_out;
  for (std::size_t sent = 0; code == Errc::timed_out; sent += much.size()) {
    ASSERT_LE(sent, 2 * RecordStream::kMaxLineBytes);
    put(much);
    code = next(0s);
  }
  EXPECT_EQ(code, Errc::limit_exceeded);
}

TEST_F(RecordStreamTest, ACutLineIsTheEnd) {
  put("{\"a\":");
  hang_up();
  EXPECT_FALSE(stream->has_ended(Clock::now() + 5s).value());  // There are bytes before it.
  EXPECT_EQ(next(), Errc::closed);
}

TEST_F(RecordStreamTest, APeerThatHangsUpHasEnded) {
  hang_up();
  EXPECT_TRUE(stream->is_readable());
  EXPECT_TRUE(stream->has_ended(Clock::now() + 5s).value());
  EXPECT_EQ(next(), Errc::closed);
  const auto written = stream->write({{"a", 1}}, Clock::now() + 5s);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().os_error, EPIPE);
}

TEST_F(RecordStreamTest, SilenceEndsAtTheDeadline) {
  EXPECT_FALSE(stream->is_readable());
  EXPECT_EQ(next(10ms), Errc::timed_out);
  EXPECT_EQ(stream->has_ended(Clock::now()).error().code, Errc::timed_out);
}

TEST_F(RecordStreamTest, APeerThatReadsNothingEndsAWriteAtTheDeadline) {
  const json much = {{"a", std::string(1 << 20, 'x')}};
  EXPECT_EQ(stream->write(much, Clock::now() + 10ms).error().code, Errc::timed_out);
}

TEST_F(RecordStreamTest, ACancelEndsAWait) {
  connect([]() noexcept { return true; });
  EXPECT_EQ(next(1h), Errc::cancelled);
  put("{}\n");
  EXPECT_EQ(next(1h), Errc::would_block);  // What is there is still read.
}

}  // namespace
}  // namespace verbatim::cli
