// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no arithmetic on a peer's memory leaves its bounds, and a record contains exactly what it
//       was made from.
#include "verbatim/verbs/remote_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

#include "support/seed.hpp"

namespace verbatim {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

struct Record {
  std::uint64_t header;
  std::array<std::uint8_t, 56> payload;
};

constexpr RemoteMemoryRegion kRegion{.address = 0x1000, .length = 100, .key = RemoteKey{42}};

TEST(RemoteMemoryRegion, StoresItsFields) {
  EXPECT_EQ(kRegion.address, 0x1000u);
  EXPECT_EQ(kRegion.length, 100u);
  EXPECT_EQ(kRegion.key, RemoteKey{42});
}

TEST(RemoteMemoryRegion, MayBeEmpty) {
  constexpr RemoteMemoryRegion kEmpty{.address = 0x1000};
  EXPECT_EQ(kEmpty.sub_region(0), kEmpty);
  EXPECT_FALSE(kEmpty.sub_region(1));
}

TEST(RemoteMemoryRegion, TailKeepsKeyAndEnd) {
  EXPECT_EQ(kRegion.sub_region(0), kRegion);
  EXPECT_EQ(kRegion.sub_region(40), (RemoteMemoryRegion{0x1000 + 40, 60, RemoteKey{42}}));
  EXPECT_EQ(kRegion.sub_region(100), (RemoteMemoryRegion{0x1000 + 100, 0, RemoteKey{42}}));
  EXPECT_EQ(kRegion.sub_region_unchecked(40), kRegion.sub_region(40));
}

TEST(RemoteMemoryRegion, PartHasItsOwnLength) {
  EXPECT_EQ(kRegion.sub_region(40, 10), (RemoteMemoryRegion{0x1000 + 40, 10, RemoteKey{42}}));
  EXPECT_EQ(kRegion.sub_region(40, 60)->length, 60u);
  EXPECT_FALSE(kRegion.sub_region(40, 61));
  EXPECT_FALSE(kRegion.sub_region(40, kMax));
}

TEST(RemoteMemoryRegion, NothingLiesBeyondTheEnd) {
  EXPECT_FALSE(kRegion.sub_region(101));
  EXPECT_FALSE(kRegion.sub_region(kMax));
  EXPECT_FALSE(kRegion.sub_region(kMax, 1));
  EXPECT_FALSE(kRegion.sub_region(101, 0));
}

TEST(RemoteMemoryRegion, AddressDoesNotWrapAround) {
  constexpr RemoteMemoryRegion kHigh{.address = kMax - 10, .length = 100};
  EXPECT_TRUE(kHigh.sub_region(10));
  EXPECT_FALSE(kHigh.sub_region(50));
}

TEST(RemoteMemoryRegion, ElementHasExactlyItsBytes) {
  EXPECT_EQ(kRegion.array_element<std::uint64_t>(0),
            (RemoteMemoryRegion{0x1000, 8, RemoteKey{42}}));
  EXPECT_EQ(kRegion.array_element<std::uint64_t>(4),
            (RemoteMemoryRegion{0x1000 + 32, 8, RemoteKey{42}}));
  EXPECT_EQ(kRegion.array_element_unchecked<std::uint64_t>(4),
            kRegion.array_element<std::uint64_t>(4));
}

TEST(RemoteMemoryRegion, ElementMustFitWhole) {
  EXPECT_TRUE(kRegion.array_element<std::uint64_t>(11));   // Bytes 88 to 95.
  EXPECT_FALSE(kRegion.array_element<std::uint64_t>(12));  // Bytes 96 to 103 of 100.
  EXPECT_FALSE(kRegion.array_element<std::uint64_t>(13));
}

TEST(RemoteMemoryRegion, ElementIndexDoesNotOverflow) {
  EXPECT_FALSE(kRegion.array_element<std::uint64_t>(kMax));
  EXPECT_FALSE(kRegion.array_element<std::uint64_t>(kMax / 8 + 1));  // Times 8 is 0.
}

TEST(RemoteMemoryRegion, FieldLiesWhereTheCompilerPutIt) {
  EXPECT_EQ(kRegion.field(&Record::header), (RemoteMemoryRegion{0x1000, 8, RemoteKey{42}}));
  EXPECT_EQ(kRegion.field(&Record::payload), (RemoteMemoryRegion{0x1008, 56, RemoteKey{42}}));
  EXPECT_EQ(kRegion.field_unchecked(&Record::payload), kRegion.field(&Record::payload));
}

TEST(RemoteMemoryRegion, FieldMustFitWhole) {
  constexpr RemoteMemoryRegion kSmall{.address = 0x1000, .length = 63};
  EXPECT_TRUE(kSmall.field(&Record::header));
  EXPECT_FALSE(kSmall.field(&Record::payload));
}

TEST(RemoteMemoryRegion, FieldOfAnElement) {
  constexpr RemoteMemoryRegion kArray{.address = 0x1000, .length = 3 * sizeof(Record)};
  EXPECT_EQ(kArray.array_field(0, &Record::header)->address, 0x1000u);
  EXPECT_EQ(kArray.array_field(2, &Record::payload),
            (RemoteMemoryRegion{0x1000 + 2 * 64 + 8, 56, RemoteKey{}}));
  EXPECT_EQ(kArray.array_field_unchecked(2, &Record::payload),
            kArray.array_field(2, &Record::payload));
  EXPECT_FALSE(kArray.array_field(3, &Record::header));
  EXPECT_FALSE(kArray.array_field(kMax, &Record::header));
}

TEST(RemoteMemoryRegion, RandomPartsLieInside) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  for (int i = 0; i < 10000; ++i) {
    const auto any = [&] { return random() >> random() % 64; };
    RemoteMemoryRegion whole{.address = any(), .length = any()};
    whole.length = std::min(whole.length, kMax - whole.address);
    const auto part = whole.sub_region(any(), any());
    if (!part) continue;
    ASSERT_GE(part->address, whole.address);
    ASSERT_LE(part->address - whole.address + part->length, whole.length);
  }
}

TEST(RemoteMemoryRecord, RoundTripKeepsAllFields) {
  const RemoteMemoryRegion region{0x0102030405060708, 0x1112131415161718, RemoteKey{0x21222324}};
  const auto bytes = encode(region);
  ASSERT_EQ(bytes.size(), 24u);
  EXPECT_EQ(bytes[0], std::byte{0x08});  // Little-endian: the low byte first.
  EXPECT_EQ(bytes[15], std::byte{0x11});
  EXPECT_EQ(bytes[16], std::byte{0x24});
  EXPECT_EQ(decode_remote_memory(bytes).value(), region);
}

TEST(RemoteMemoryRecord, RefusesEveryOtherSize) {
  auto bytes = encode(kRegion);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto result = decode_remote_memory(std::span{bytes}.first(size));
    ASSERT_FALSE(result) << size;
    EXPECT_EQ(result.error(), Errc::malformed);
    EXPECT_STREQ(result.error().operation, "decode_remote_memory");
    EXPECT_STREQ(result.error().field, "size");
    EXPECT_EQ(result.error().value, size);
    EXPECT_EQ(result.error().limit, 24u);
  }
  bytes.push_back(std::byte{0});
  EXPECT_STREQ(decode_remote_memory(bytes).error().field, "size");
}

TEST(RemoteMemoryRecord, RefusesRangesBeyondTheEndOfMemory) {
  EXPECT_TRUE(decode_remote_memory(encode(RemoteMemoryRegion{kMax - 7, 8, {}})));
  EXPECT_TRUE(decode_remote_memory(encode(RemoteMemoryRegion{0, kMax, {}})));
  const auto result = decode_remote_memory(encode(RemoteMemoryRegion{kMax - 7, 9, {}}));
  ASSERT_FALSE(result);
  EXPECT_STREQ(result.error().field, "length");
  EXPECT_EQ(result.error().value, 9u);
  EXPECT_EQ(result.error().limit, 8u);
}

TEST(RemoteMemoryRecord, RefusesBytesThatMustBeZero) {
  auto bytes = encode(kRegion);
  bytes[23] = std::byte{1};
  EXPECT_STREQ(decode_remote_memory(bytes).error().field, "reserved");
}

TEST(RemoteAtomic, IsAnAlignedWordOfTheRegion) {
  EXPECT_EQ(RemoteAtomic::at(kRegion)->region(), (RemoteMemoryRegion{0x1000, 8, RemoteKey{42}}));
  EXPECT_EQ(RemoteAtomic::at(kRegion, 88)->region().address, 0x1000u + 88);
}

TEST(RemoteAtomic, RefusesCrookedAddresses) {
  const auto result = RemoteAtomic::at(kRegion, 4);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::invalid_argument);
  EXPECT_STREQ(result.error().field, "alignment");
  EXPECT_EQ(result.error().value, 0x1004u);
  EXPECT_EQ(result.error().limit, 8u);
  // The address counts, not the offset.
  constexpr RemoteMemoryRegion kCrooked{.address = 0x1004, .length = 100};
  EXPECT_FALSE(RemoteAtomic::at(kCrooked));
  EXPECT_TRUE(RemoteAtomic::at(kCrooked, 4));
}

TEST(RemoteAtomic, RefusesWordsBeyondTheEnd) {
  for (const std::uint64_t offset : {std::uint64_t{96}, std::uint64_t{1000}, kMax - 7}) {
    const auto result = RemoteAtomic::at(kRegion, offset);
    ASSERT_FALSE(result) << offset;
    EXPECT_STREQ(result.error().field, "offset");
    EXPECT_EQ(result.error().value, offset);
    EXPECT_EQ(result.error().limit, 100u);
  }
}

TEST(RemoteAtomic, OfASpanIsOneOfItsWords) {
  struct Counter {
    std::uint64_t hits;
    std::uint64_t misses;
  };
  constexpr AccessFlags kAtomic = Access::remote_atomic;
  const auto words = RemoteSpan<std::uint64_t, kAtomic>::of(kRegion);
  EXPECT_EQ(RemoteAtomic::at(words[3])->region(),
            (RemoteMemoryRegion{0x1000 + 24, 8, RemoteKey{42}}));
  const auto counters = RemoteSpan<Counter, kAtomic>::of(kRegion);
  EXPECT_EQ(RemoteAtomic::at(counters[1].field(&Counter::misses))->region().address, 0x1018u);
  // The type cannot know the address of the peer's memory.
  const auto crooked = RemoteSpan<std::uint64_t, kAtomic>::of({.address = 0x1004, .length = 16});
  EXPECT_STREQ(RemoteAtomic::at(crooked[0]).error().field, "alignment");
}

// ---- RemoteSpan

constexpr AccessFlags kRead = Access::remote_read;
constexpr AccessFlags kReadWrite = Access::remote_read | Access::remote_write;

static_assert(std::is_convertible_v<RemoteSpan<int, kReadWrite>, RemoteSpan<int, kRead>>);
static_assert(!std::is_convertible_v<RemoteSpan<int, kRead>, RemoteSpan<int, kReadWrite>>);
static_assert(!std::is_convertible_v<RemoteSpan<int, kRead>, RemoteSpan<unsigned, kRead>>);

TEST(RemoteSpan, CutsOffWhatIsNoWholeElement) {
  const auto span = RemoteSpan<std::uint64_t, kRead>::of(kRegion);
  EXPECT_EQ(span.size(), 12u);
  EXPECT_EQ(span.region().length, 96u);
}

TEST(RemoteSpan, ElementsAndFieldsLieInside) {
  const auto span = RemoteSpan<Record, kRead>::of({.address = 0x1000, .length = 128});
  EXPECT_EQ(span[1].region().address, 0x1040u);
  EXPECT_EQ(span[1].field(&Record::payload).region().address, 0x1048u);
  EXPECT_EQ(span[1].field(&Record::payload).region().length, 56u);
}

TEST(RemoteSpan, SubspanLiesInside) {
  const auto span = RemoteSpan<std::uint64_t, kRead>::of(kRegion);
  EXPECT_EQ(span.subspan(2, 3)->region(), (RemoteMemoryRegion{0x1010, 24, RemoteKey{42}}));
  EXPECT_EQ(span.subspan(12, 0)->size(), 0u);
  EXPECT_FALSE(span.subspan(2, 11));
  EXPECT_FALSE(span.subspan(13, 0));
  EXPECT_FALSE(span.subspan(kMax, kMax));
}

TEST(RemoteSpan, IndexBeyondTheEndIsMisuse) {
  set_contract_handler([](const ContractViolation& violation) { throw violation; });
  const auto span = RemoteSpan<std::uint64_t, kRead>::of(kRegion);
  try {
    static_cast<void>(span[12]);
    ADD_FAILURE() << "returned";
  } catch (const ContractViolation& violation) {
    EXPECT_EQ(violation.value, 12u);
    EXPECT_EQ(violation.limit, 12u);
  }
  set_contract_handler(nullptr);
}

}  // namespace
}  // namespace verbatim
