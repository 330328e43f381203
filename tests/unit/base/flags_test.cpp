// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a set of flags behaves like a set, and sets of different enums do not mix.
#include "verbatim/base/flags.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace verbatim {

enum class Fruit : std::uint8_t { apple = 1, pear = 2, plum = 0x80 };
template <>
inline constexpr bool kIsFlag<Fruit> = true;
enum class Stone : std::uint8_t { granite = 1, slate = 2 };  // Has not opted in.

namespace {

using Fruits = Flags<Fruit>;

template <class A, class B>
concept CanJoin = requires(A a, B b) { a | b; };

TEST(Flags, StartEmpty) {
  EXPECT_TRUE(Fruits{}.empty());
  EXPECT_EQ(Fruits{}.bits, 0);
}

TEST(Flags, HasMeansAllAndHasAnyMeansOne) {
  const Fruits fruits = Fruit::apple | Fruit::pear;
  EXPECT_TRUE(fruits.has(Fruit::apple));
  EXPECT_TRUE(fruits.has(Fruit::apple | Fruit::pear));
  EXPECT_FALSE(fruits.has(Fruit::apple | Fruit::plum));
  EXPECT_TRUE(fruits.has_any(Fruit::apple | Fruit::plum));
  EXPECT_FALSE(fruits.has_any(Fruit::plum));
  EXPECT_TRUE(fruits.has({}));
  EXPECT_FALSE(fruits.has_any({}));
}

TEST(Flags, JoiningTwiceChangesNothing) {
  Fruits fruits = Fruit::apple;
  fruits |= Fruit::apple;
  EXPECT_EQ(fruits, Fruits{Fruit::apple});
}

TEST(Flags, OrderDoesNotMatter) {
  EXPECT_EQ(Fruit::apple | Fruit::plum, Fruit::plum | Fruit::apple);
}

TEST(Flags, WithoutRemovesOnlyWhatIsNamed) {
  const Fruits all = Fruit::apple | Fruit::pear | Fruit::plum;
  EXPECT_EQ(all.without(Fruit::plum), Fruit::apple | Fruit::pear);
  EXPECT_EQ(all.without({}), all);
  EXPECT_TRUE(all.without(all).empty());
}

TEST(Flags, KeepRawBitsThatHaveNoName) { EXPECT_EQ(Fruits::from_bits(0x40).bits, 0x40); }

TEST(Flags, OnlyEnumsThatOptInJoin) {
  EXPECT_TRUE((CanJoin<Fruit, Fruit>));
  EXPECT_FALSE((CanJoin<Stone, Stone>));
  EXPECT_FALSE((CanJoin<Fruit, Stone>));
  EXPECT_FALSE((CanJoin<Fruits, Flags<Stone>>));
}

template <Fruits F>
constexpr bool kHasPlum = F.has(Fruit::plum);

TEST(Flags, CanBeATemplateArgument) {
  EXPECT_TRUE((kHasPlum < Fruit::apple | Fruit::plum >));
  EXPECT_FALSE(kHasPlum<Fruit::apple>);
}

}  // namespace
}  // namespace verbatim
