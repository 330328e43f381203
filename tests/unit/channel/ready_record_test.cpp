// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a ready record confirms exactly the connection for which it was written.
// Method: a valid record; each byte of it changed, each length; records of other connections.
#include "channel/ready_record.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/require.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint64_t kLeft = 0x1122334455667788;
constexpr std::uint64_t kRight = 0x99aabbccddeeff00;

/// What the right side finds wrong with it, or "".
std::string complaint(std::span<const std::byte> record) {
  const auto checked = detail::check_ready(record, kRight, kLeft);
  return checked ? "" : checked.error().field;
}

TEST(ReadyRecord, OfThePeerIsConfirmed) {
  EXPECT_TRUE(succeeds(detail::check_ready(detail::encode_ready(kLeft, kRight), kRight, kLeft)));
}

TEST(ReadyRecord, HasTheLayoutThatIsDocumented) {
  const ReadyRecord record = detail::encode_ready(kLeft, kRight);
  const std::string text{reinterpret_cast<const char*>(record.data()), 4};
  EXPECT_EQ(text, "VBRD");
  EXPECT_EQ(record[4], std::byte{1});
  EXPECT_EQ(record[6], std::byte{24});
  EXPECT_EQ(record[8], std::byte{0x88});
  EXPECT_EQ(record[23], std::byte{0x99});
}

TEST(ReadyRecord, OfAnotherConnectionIsIncompatible) {
  const auto other_peer =
      detail::check_ready(detail::encode_ready(kLeft + 1, kRight), kRight, kLeft);
  ASSERT_TRUE(fails_with(other_peer, Errc::incompatible));
  EXPECT_STREQ(other_peer.error().field, "nonce");
  // The peer used an endpoint of ours from before a recycle().
  const auto former = detail::check_ready(detail::encode_ready(kLeft, kRight + 1), kRight, kLeft);
  ASSERT_TRUE(fails_with(former, Errc::incompatible));
  EXPECT_STREQ(former.error().field, "seen nonce");
  // Our own record, sent back.
  EXPECT_EQ(complaint(detail::encode_ready(kRight, kLeft)), "nonce");
}

TEST(ReadyRecord, EveryByteCounts) {
  const char* const fields[] = {"magic",   "magic",   "magic",  "magic",
                                "version", "version", "length", "length"};
  for (std::size_t i = 0; i < sizeof(ReadyRecord); ++i) {
    ReadyRecord record = detail::encode_ready(kLeft, kRight);
    record[i] ^= std::byte{0x10};
    EXPECT_EQ(complaint(record), i < 8 ? fields[i] : i < 16 ? "nonce" : "seen nonce") << i;
  }
}

TEST(ReadyRecord, OfAnotherLengthIsMalformed) {
  const ReadyRecord good = detail::encode_ready(kLeft, kRight);
  std::vector<std::byte> record{good.begin(), good.end()};
  record.push_back({});
  EXPECT_TRUE(fails_with(detail::check_ready(record, kRight, kLeft), Errc::malformed));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(fails_with(detail::check_ready(std::span{good}.first(size), kRight, kLeft),
                           Errc::malformed))
        << size;
}

}  // namespace
}  // namespace verbatim::test
