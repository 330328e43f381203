// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a buffer is memory and registration in one: both are there, or (after a move) neither; its
//       parts are checked, and it is deregistered before it is unmapped.
// Method: the null provider, whose table records the order of destruction.
#include "verbatim/verbs/buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "support/null_device.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::test {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer>);

class BufferTest : public NullDevice {
 protected:
  Buffer make(std::size_t bytes) {
    return require(require(open().allocate_domain()).allocate(bytes));
  }
};

TEST_F(BufferTest, IsZeroedAlignedAndRegisteredWhole) {
  for (const std::size_t bytes : {1u, 63u, 64u, 4096u, 100'000u}) {
    Buffer buffer = make(bytes);
    EXPECT_TRUE(buffer);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(buffer.bytes().size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % 64, 0u);
    EXPECT_TRUE(
        std::ranges::all_of(buffer.bytes(), [](std::byte each) { return each == std::byte{0}; }));
    EXPECT_TRUE(buffer.region().encloses(buffer.bytes().data(), bytes));
    EXPECT_EQ(buffer.region().length(), bytes);
  }
}

TEST_F(BufferTest, LendsItsBytes) {
  Buffer buffer = make(10);
  EXPECT_EQ(buffer.with([](std::span<std::byte> bytes) {
    bytes[3] = std::byte{7};
    return bytes.size();
  }),
            10u);
  const Buffer& constant = buffer;
  EXPECT_EQ(constant.with([](std::span<const std::byte> bytes) { return bytes[3]; }), std::byte{7});
  EXPECT_EQ(constant.bytes()[3], std::byte{7});
}

struct Slot {
  std::uint64_t sequence;
  std::uint32_t values[3];
};

TEST_F(BufferTest, HoldsObjects) {
  const ProtectionDomain domain = require(open().allocate_domain());
  Buffer buffer = require(domain.allocate<Slot>(10));
  EXPECT_EQ(buffer.size(), 10 * sizeof(Slot));
  const std::span<Slot> slots = buffer.as<Slot>();
  ASSERT_EQ(slots.size(), 10u);
  EXPECT_EQ(slots[9].sequence, 0u);
  slots[9].sequence = 77;
  const Buffer& constant = buffer;
  static_assert(std::is_same_v<decltype(constant.as<Slot>()), std::span<const Slot>>);
  EXPECT_EQ(constant.as<Slot>()[9].sequence, 77u);
  EXPECT_EQ(std::bit_cast<ibv_sge>(buffer.region().gather(slots.last(1))).length, sizeof(Slot));
}

TEST_F(BufferTest, TailThatIsNoWholeObjectIsCutOff) {
  Buffer buffer = make(sizeof(Slot) + 5);
  EXPECT_EQ(buffer.as<Slot>().size(), 1u);
  EXPECT_EQ(buffer.as<char>().size(), sizeof(Slot) + 5);
}

TEST_F(BufferTest, TooManyObjectsAreRefused) {
  const ProtectionDomain domain = require(open().allocate_domain());
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  for (const std::size_t count : {kMost, kMost / sizeof(Slot) + 1, kMost / 2})
    EXPECT_TRUE(fails_with(domain.allocate<Slot>(count), Errc::limit_exceeded)) << count;
  EXPECT_TRUE(fails_with(domain.allocate<Slot>(0), Errc::invalid_argument));
}

TEST_F(BufferTest, MovedAwayHoldsNoObjects) {
  const ThrowingContracts contracts;
  Buffer buffer = make(64);
  const Buffer taken = std::move(buffer);
  EXPECT_THROW(static_cast<void>(buffer.as<Slot>()), ContractViolation);  // NOLINT: the point
}

TEST_F(BufferTest, IsNotForPeers) {
  const Buffer buffer = make(10);
  EXPECT_TRUE(fails_with(buffer.region().remote(), Errc::permission_denied));
}

TEST_F(BufferTest, GivesElementsOfItsParts) {
  Buffer buffer = make(100);
  const auto base = reinterpret_cast<std::uintptr_t>(buffer.bytes().data());
  const auto raw = [](const auto& element) { return std::bit_cast<ibv_sge>(element); };
  EXPECT_EQ(buffer.gather().size_bytes(), 100u);
  EXPECT_EQ(buffer.scatter().size_bytes(), 100u);
  EXPECT_EQ(raw(buffer.gather(10)).addr, base + 10);
  EXPECT_EQ(raw(buffer.gather(10)).length, 90u);
  EXPECT_EQ(raw(buffer.scatter(20, 30)).addr, base + 20);
  EXPECT_EQ(raw(buffer.scatter(20, 30)).length, 30u);
  EXPECT_EQ(buffer.gather(100).size_bytes(), 0u);
  EXPECT_EQ(buffer.gather(0, 0).size_bytes(), 0u);
}

TEST_F(BufferTest, RefusesPartsBeyondItsEnd) {
  const ThrowingContracts throwing;
  Buffer buffer = make(100);
  EXPECT_THROW(static_cast<void>(buffer.gather(101)), ContractViolation);
  EXPECT_THROW(static_cast<void>(buffer.scatter(101, 0)), ContractViolation);
  EXPECT_THROW(static_cast<void>(buffer.gather(0, 101)), ContractViolation);
  // One less than "the rest": the largest size that there is.
  EXPECT_THROW(static_cast<void>(buffer.scatter(1, std::dynamic_extent - 1)), ContractViolation);
  try {
    static_cast<void>(buffer.gather(60, 41));
    FAIL() << "gather() returned";
  } catch (const ContractViolation& violation) {
    EXPECT_EQ(violation.value, 41u);
    EXPECT_EQ(violation.limit, 40u);
  }
}

TEST_F(BufferTest, IsNullAfterAMove) {
  const ThrowingContracts throwing;
  Buffer made = make(100);
  Buffer& from = made;  // Otherwise clang would not let it be used again.
  const std::byte* const address = from.bytes().data();
  Buffer to = std::move(from);
  EXPECT_TRUE(to);
  EXPECT_EQ(to.bytes().data(), address);
  EXPECT_EQ(to.size(), 100u);
  EXPECT_FALSE(from);
  EXPECT_EQ(from.size(), 0u);
  EXPECT_THROW(static_cast<void>(from.bytes()), ContractViolation);
  EXPECT_THROW(static_cast<void>(std::as_const(from).bytes()), ContractViolation);
  EXPECT_THROW(static_cast<void>(from.gather()), ContractViolation);
  EXPECT_THROW(static_cast<void>(from.scatter()), ContractViolation);
  EXPECT_THROW(from.with([](auto) {}), ContractViolation);
}

TEST_F(BufferTest, TakesTheOtherAndLetsItsOwnGo) {
  Buffer kept = make(10);
  const int before = live();
  {
    Buffer other = make(20);
    const std::byte* const address = other.bytes().data();
    kept = std::move(other);
    EXPECT_FALSE(other);
    EXPECT_EQ(kept.bytes().data(), address);
    EXPECT_EQ(kept.size(), 20u);
    EXPECT_EQ(kept.gather().size_bytes(), 20u);
  }
  EXPECT_EQ(live(), before);
}

TEST_F(BufferTest, LivesUntilTheLastLookAtIt) {
  std::optional<Buffer> buffer{make(64)};
  buffer->with([&](std::span<std::byte> outer) {
    buffer->with([&](std::span<std::byte>) { Buffer{std::move(*buffer)}; });  // Destroyed here.
    std::ranges::fill(outer, std::byte{7});  // Seen by AddressSanitizer if it were gone.
    EXPECT_EQ(outer[63], std::byte{7});
  });
  EXPECT_FALSE(*buffer);
}

TEST_F(BufferTest, CanBeFilledAgainAfterAMove) {
  Buffer first = make(10);
  Buffer second = std::move(first);
  first = make(30);
  EXPECT_TRUE(first);
  EXPECT_EQ(first.scatter().size_bytes(), 30u);
}

// ---- The order of going

class BufferOrderTest : public BufferTest {
 protected:
  BufferOrderTest() {
    order.clear();
    table.dereg_mr = [](ibv_mr* region) {
      order += 'd';
      return verbatim_null_provider()->dereg_mr(region);
    };
    table.free_memory = [](ibv_context* context, void* address, std::size_t bytes) {
      order += 'f';
      return verbatim_null_provider()->free_memory(context, address, bytes);
    };
    table.dealloc_pd = [](ibv_pd* domain) {
      order += 'p';
      return verbatim_null_provider()->dealloc_pd(domain);
    };
  }
  static inline std::string order;
};

TEST_F(BufferOrderTest, DeregistersThenUnmaps) {
  {
    const Buffer buffer = make(10);
  }
  EXPECT_EQ(order, "dfp");
}

TEST_F(BufferOrderTest, DeregistersThenUnmapsWhenAssignedTo) {
  Buffer buffer = make(10);
  Buffer other = make(10);
  order.clear();
  buffer = std::move(other);
  EXPECT_EQ(order, "dfp");
}

TEST_F(BufferOrderTest, SharedRegionsToo) {
  const ProtectionDomain domain = require(open().allocate_domain());
  {
    auto shared = require(domain.allocate_shared(10, Access::remote_read));
    shared = require(domain.allocate_shared(20, Access::remote_read));
    EXPECT_EQ(order, "df");
  }
  EXPECT_EQ(order, "dfdf");
}

}  // namespace
}  // namespace verbatim::test
