// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every interface of a channel takes one element, several, and none, and posts many receives
//       at once.
// Method: two connected channels; each operation with each kind of list.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "conformance/connected_channels.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/channel/scope.hpp"

namespace verbatim::test {
namespace {

class ElementLists : public ChannelsAndMemory {
 protected:
  /// Whether pieces 0 and 1 of the source are in the sink, from place `at` on.
  [[nodiscard]] testing::AssertionResult arrived(std::size_t at = 0) const {
    if (std::ranges::equal(std::span{source}.first(2 * kPiece),
                           std::span{sink}.subspan(at * kPiece, 2 * kPiece)))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the two pieces did not come to place " << at;
  }
};

TEST_F(ElementLists, BlockingSendTakesEachKind) {
  const std::vector<GatherElement> pieces{piece(0), piece(1)};
  const std::array both{piece(0), piece(1)};
  const ElementList<GatherElement, 2> list{both};
  const auto once = [&](auto&& elements) {
    std::ranges::fill(sink, std::byte{});
    auto receiving = right.receive(empty(2 * kPiece));
    EXPECT_TRUE(succeeds(left.send(std::forward<decltype(elements)>(elements))));
    const auto done = receiving.wait();
    EXPECT_TRUE(std::ranges::equal(done.received(), std::span{source}.first(2 * kPiece)));
  };
  once(std::array{piece(0), piece(1)});
  once(both);
  once(list);
  once(pieces);
  once(std::vector{piece(0), piece(1)});
  once(std::span<const GatherElement>{pieces});
}

TEST_F(ElementLists, BlockingReceiveTakesEachKind) {
  // The other side posts all of them first, so a blocking receive finds its message there.
  const auto once = [&](auto&& elements) {
    std::ranges::fill(sink, std::byte{});
    auto sending = left.send(filled(2 * kPiece, seed));
    const auto done = right.receive(std::forward<decltype(elements)>(elements));
    ASSERT_TRUE(succeeds(done));
    EXPECT_EQ(done->byte_count(), 2 * kPiece);
    EXPECT_TRUE(holds(std::span{sink}.first(2 * kPiece), seed));
    EXPECT_TRUE(succeeds(sending.wait().result));
  };
  once(std::array{place(0), place(1)});
  once(ElementList<ScatterElement, 2>{std::array{place(0), place(1)}});
  std::vector<ScatterElement> places;
  places.push_back(place(0));
  places.push_back(place(1));
  once(places);
  once(std::span<const ScatterElement>{places});
  const std::array named{place(0), place(1)};
  once(named);  // Borrowed: its elements are not to be had.
}

TEST_F(ElementLists, BlockingWriteAndReadTakeSeveral) {
  const SharedRegion window =
      require(domain.allocate_shared(2 * kPiece, Access::remote_write | Access::remote_read));
  ASSERT_TRUE(succeeds(left.write(std::array{piece(0), piece(1)}, window.remote())));
  ASSERT_TRUE(succeeds(left.read(std::array{place(0), place(1)}, window.remote())));
  EXPECT_TRUE(arrived());
  std::vector<ScatterElement> places;
  places.push_back(place(4));
  places.push_back(place(5));
  ASSERT_TRUE(succeeds(left.read(places, window.remote())));
  EXPECT_TRUE(arrived(4));
}

TEST_F(ElementLists, ScopeTakesSeveral) {
  const SharedRegion window =
      require(domain.allocate_shared(2 * kPiece, Access::remote_write | Access::remote_read));
  const std::vector<GatherElement> pieces{piece(0), piece(1)};
  const auto outcome = right.scope([&](Scope& receiving) -> Result<void> {
    const auto two = receiving.post(Receive{std::array{place(0), place(1)}});
    const auto more = receiving.post(Receive{std::array{place(2), place(3)}});
    const auto sent = left.scope([&](Scope& scope) {
      scope.post_detached(Send{std::array{piece(0), piece(1)}});
      scope.post_detached(Send{std::span<const GatherElement>{pieces}});
      scope.post_detached(Write{std::array{piece(0), piece(1)}, window.remote()});
      scope.post_detached(Read{std::array{place(4), place(5)}, window.remote(), {.fenced = true}});
    });
    EXPECT_TRUE(sent.has_value());
    VERBATIM_TRY(receiving.wait(two));
    VERBATIM_TRY(receiving.wait(more));
    return {};
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(arrived(0));
  EXPECT_TRUE(arrived(2));
  EXPECT_TRUE(arrived(4));
}

// ---- Many receives ------------------------------------------------------------------------------

TEST_F(ElementLists, ReceivesOfABatchGetAMessageEach) {
  const auto outcome = right.manual_scope([&](Scope& scope) {
    const std::array handles =
        scope.post(std::array{Receive{place(0)}, Receive{place(1)}, Receive{place(2)}});
    for (std::uint32_t i = 0; i < handles.size(); ++i)
      EXPECT_TRUE(succeeds(left.send(piece(i), {.immediate = i})));
    for (std::uint32_t i = 0; i < handles.size(); ++i) {
      const auto done = scope.wait(handles[i]);
      ASSERT_TRUE(succeeds(done));
      EXPECT_EQ(done->immediate(), i);
    }
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(
      std::ranges::equal(std::span{source}.first(3 * kPiece), std::span{sink}.first(3 * kPiece)));
}

TEST_F(ElementLists, ReceivesWithoutMemoryMakeABatchToo) {
  const std::vector<Receive<0>> slots(5);
  const auto outcome = right.scope([&](Scope& scope) {
    std::vector<Operation> handles(slots.size());
    scope.post(slots, handles);
    for (std::uint32_t i = 0; i < slots.size(); ++i)
      EXPECT_TRUE(succeeds(left.run(send_immediate(i))));
    for (std::uint32_t i = 0; i < slots.size(); ++i)
      EXPECT_EQ(require(scope.wait(handles[i])).immediate(), i);
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ElementLists, OwnedReceivesOfABatchGetAMessageEach) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(empty(kPiece));
  std::vector<Pending<Buffer>> receiving = right.receive_each(std::move(buffers));
  ASSERT_EQ(receiving.size(), 4u);
  for (std::size_t i = 0; i < receiving.size(); ++i)
    EXPECT_TRUE(succeeds(left.send(filled(kPiece - i, seed + i)).wait().result));
  for (std::size_t i = 0; i < receiving.size(); ++i) {
    const auto done = receiving[i].wait();
    ASSERT_TRUE(succeeds(done.result));
    EXPECT_EQ(done.received().size(), kPiece - i);
    EXPECT_TRUE(holds(done.received(), seed + i));
  }
}

}  // namespace
}  // namespace verbatim::test
