// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: little-endian on every host, and a reader that stops at the end.
#include "base/byte_codec.hpp"

#include <gtest/gtest.h>

namespace verbatim::detail {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

TEST(ByteWriter, WritesTheLowByteFirst) {
  ByteWriter writer;
  writer.put(std::uint16_t{0x0102});
  writer.put(std::uint32_t{0x03040506});
  writer.put(std::uint8_t{7});
  writer.put_bytes(bytes({8, 9}));
  EXPECT_EQ(std::move(writer).take(), bytes({2, 1, 6, 5, 4, 3, 7, 8, 9}));
}

TEST(ByteReader, ReadsBackWhatWasWritten) {
  ByteWriter writer;
  writer.put(std::uint64_t{0x8182838485868788});
  const auto record = std::move(writer).take();
  ByteReader reader{"test", record};
  EXPECT_EQ(reader.get<std::uint64_t>("number").value(), 0x8182838485868788);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, NamesTheFieldThatDoesNotFit) {
  const auto record = bytes({1, 2, 3, 4, 5});
  ByteReader reader{"test", record};
  ASSERT_TRUE(reader.get<std::uint32_t>("first"));
  const auto second = reader.get<std::uint16_t>("second");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), Errc::malformed);
  EXPECT_STREQ(second.error().operation, "test");
  EXPECT_STREQ(second.error().field, "second");
  EXPECT_EQ(second.error().value, 5u);  // Six bytes are needed, and there are five.
  EXPECT_EQ(second.error().limit, 6u);
  EXPECT_EQ(reader.remaining(), 1u);  // A failure consumes nothing.
}

TEST(ByteReader, RefusesWhatIsAboveTheLimit) {
  const auto record = bytes({7, 8});
  ByteReader reader{"test", record};
  EXPECT_EQ(reader.get_at_most<std::uint8_t>("code", 7).value(), 7);
  EXPECT_EQ(reader.get_at_most<std::uint8_t>("code", 7).error().value, 8u);
}

}  // namespace
}  // namespace verbatim::detail
