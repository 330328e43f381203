// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace verbatim::test {

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  while (!bytes.empty()) {
    const std::uint64_t word = random.next();
    const std::size_t count = std::min(bytes.size(), sizeof(word));
    std::memcpy(bytes.data(), &word, count);
    bytes = bytes.subspan(count);
  }
}

testing::AssertionResult holds(std::span<const std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t start = 0; start < bytes.size(); start += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    const std::size_t count = std::min(bytes.size() - start, sizeof(word));
    if (std::memcmp(&word, &bytes[start], count) == 0) continue;
    std::byte expected[sizeof(word)];
    std::memcpy(expected, &word, sizeof(word));
    for (std::size_t i = 0; i < count; ++i) {
      if (bytes[start + i] == expected[i]) continue;
      return testing::AssertionFailure()
             << "byte " << start + i << " of " << bytes.size() << " is "
             << std::to_integer<int>(bytes[start + i]) << ", expected "
             << std::to_integer<int>(expected[i]) << " (pattern " << seed << ")";
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult all_equal(std::span<const std::byte> bytes, std::byte value) {
  const auto at = std::ranges::find_if(bytes, [value](std::byte each) { return each != value; });
  if (at == bytes.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "byte " << at - bytes.begin() << " of " << bytes.size() << " is "
         << std::to_integer<int>(*at) << ", expected " << std::to_integer<int>(value);
}

}  // namespace verbatim::test
