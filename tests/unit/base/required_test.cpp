// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an options struct with a Required member does not compile without it, and reads like the
//       plain value with it.
// Method: concepts, because the compiler is under test.
#include "verbatim/base/required.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <type_traits>

namespace verbatim {
namespace {

struct Options {
  Required<std::string> name;
  int depth = 3;
};

// Depends on O, so that code that does not compile is "false" and not an error.
template <class O>
concept WithoutName = requires { O{.depth = 4}; };
template <class O>
concept WithName = requires { O{.name = std::string{}, .depth = 4}; };

static_assert(!std::is_default_constructible_v<Required<int>>);
static_assert(!std::is_default_constructible_v<Options>);
static_assert(WithName<Options>);
// g++ 12 accepts the deleted constructor here, and refuses it where the object is created.
#if defined(__clang__)
static_assert(!WithoutName<Options>);
#endif

TEST(Required, ReadsLikeItsValue) {
  const Options options{.name = std::string{"mlx5_0"}};
  const std::string& name = options.name;
  EXPECT_EQ(name, "mlx5_0");
  EXPECT_EQ(options.name.get(), "mlx5_0");
  EXPECT_EQ(options.depth, 3);
}

TEST(Required, TakesMoveOnlyValues) {
  const Required<std::unique_ptr<int>> pointer{std::make_unique<int>(7)};
  EXPECT_EQ(*pointer.get(), 7);
}

}  // namespace
}  // namespace verbatim
