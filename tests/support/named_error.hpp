// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Checks code, argument and numbers of an error at once, because an error is only as good as
/// what it names.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "support/require.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::test {

/// The numbers that an error must show. A number that is left out must be absent (0).
struct Numbers {
  std::uint64_t value = 0;
  std::uint64_t limit = 0;
};

/// Whether `result` failed with `code` and its `field` contains `word`.
template <class T>
[[nodiscard]] testing::AssertionResult fails_naming(const Result<T>& result, Errc code,
                                                    std::string_view word, Numbers numbers = {}) {
  if (const auto failed = fails_with(result, code); !failed) return failed;
  const Error& error = result.error();
  if (std::string_view{error.field}.contains(word) && error.value == numbers.value &&
      error.limit == numbers.limit)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "\"" << to_string(error) << "\" (field \"" << error.field << "\", value " << error.value
         << ", limit " << error.limit << ") is not about \"" << word << "\", " << numbers.value
         << ", " << numbers.limit;
}

}  // namespace verbatim::test
