// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/test_memory.hpp"

#include <algorithm>

#include "support/pattern.hpp"
#include "support/require.hpp"

namespace verbatim::test {

namespace {

constexpr std::byte kGuard{0xa5};
constexpr std::size_t kGuardBytes = 64;

}  // namespace

ScatteredMemory::ScatteredMemory(const ProtectionDomain& domain, std::size_t bytes,
                                 std::size_t pieces, std::uint64_t seed)
    : buffer_(require(domain.allocate(bytes + (pieces + 1) * kGuardBytes))) {
  Random random(seed);
  std::vector<std::size_t> cuts{bytes};
  while (cuts.size() < pieces) cuts.push_back(random.up_to(bytes));
  std::ranges::sort(cuts);
  std::size_t from = 0;
  for (std::size_t i = 0; i < pieces; ++i) {
    pieces_.push_back({from + (i + 1) * kGuardBytes, cuts[i] - from});
    from = cuts[i];
  }
  for (const Piece& piece : pieces_) {
    gather_.push_back(buffer_.gather(piece.offset, piece.size));
    scatter_.push_back(buffer_.scatter(piece.offset, piece.size));
  }
  std::ranges::fill(buffer_.bytes(), kGuard);
}

void ScatteredMemory::fill(std::uint64_t seed) {
  std::vector<std::byte> all = content();
  test::fill(all, seed);
  std::span<const std::byte> rest = all;
  for (const Piece& piece : pieces_) {
    std::ranges::copy(rest.first(piece.size), buffer_.bytes().subspan(piece.offset).begin());
    rest = rest.subspan(piece.size);
  }
}

std::vector<std::byte> ScatteredMemory::content() const {
  std::vector<std::byte> all;
  for (const Piece& piece : pieces_) {
    const auto part = buffer_.bytes().subspan(piece.offset, piece.size);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

testing::AssertionResult ScatteredMemory::holds(std::uint64_t seed) const {
  std::size_t end = 0;
  for (const Piece& piece : pieces_) {
    if (auto intact = all_equal(buffer_.bytes().subspan(end, piece.offset - end), kGuard); !intact)
      return intact << " in the guard before offset " << piece.offset;
    end = piece.offset + piece.size;
  }
  if (auto intact = all_equal(buffer_.bytes().subspan(end), kGuard); !intact)
    return intact << " in the guard after the last piece";
  return test::holds(content(), seed);
}

ExposedMemory::ExposedMemory(const ProtectionDomain& domain, std::size_t bytes, AccessFlags remote)
    : size_(bytes), region_(require(domain.allocate_shared(bytes + 2 * kGuardBytes, remote))) {
  std::ranges::fill(region_.quiescent_bytes(), kGuard);
  std::ranges::fill(this->bytes(), std::byte{0});
}

void ExposedMemory::fill(std::uint64_t seed) { test::fill(bytes(), seed); }

testing::AssertionResult ExposedMemory::holds(std::uint64_t seed) {
  const auto all = region_.quiescent_bytes();
  if (auto intact = all_equal(all.first(kGuardBytes), kGuard); !intact)
    return intact << " in the guard before the memory";
  if (auto intact = all_equal(all.last(kGuardBytes), kGuard); !intact)
    return intact << " in the guard after the memory";
  return test::holds(bytes(), seed);
}

std::span<std::byte> ExposedMemory::bytes() {
  return region_.quiescent_bytes().subspan(kGuardBytes, size_);
}

RemoteMemoryRegion ExposedMemory::remote() const {
  return region_.remote().sub_region(kGuardBytes, size_).value();
}

}  // namespace verbatim::test
