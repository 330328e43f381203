// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message is in its receive buffer as if the device had put it there when it arrived: later
//       requests see it, later writes stay, and memory whose registration has ended belongs to the
//       program again, whether the completion was polled or not.
// Method: a peer sends and gets its completion, but the receiver has not polled. Then memory,
//         region or queue pair go, or another request arrives; then the receiver polls. The peer is
//         in this process or in another, and the memory is private or that of a Buffer: the
//         software device has different paths for each.
// Covers: soft/deliver.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <ostream>
#include <vector>

#include "conformance/raw_peer.hpp"
#include "support/contained.hpp"
#include "support/pattern.hpp"

namespace verbatim::test {
namespace {

constexpr std::byte kOld{0x11};
constexpr std::byte kSent{0x5a};
constexpr std::byte kLater{0xb7};
constexpr std::size_t kRoom = raw::kOwnMappingBytes;  ///< So that it can be unmapped.
constexpr std::size_t kHeader = 40;  ///< At the start of a datagram's receive buffer.

enum class Memory : std::uint8_t { plain, buffer };

struct Case {
  Place place;
  Memory memory;
  ibv_qp_type type;
  std::uint32_t bytes;

  /// For a raw::Mapping of this kind.
  [[nodiscard]] ibv_context* allocator(const Watched& side) const {
    return memory == Memory::buffer ? side.context.get() : nullptr;
  }
};
void PrintTo(const Case& which, std::ostream* out) {
  *out << (which.place == Place::this_process ? "Within" : "Between")
       << (which.memory == Memory::plain ? "Plain" : "Buffer")
       << (which.type == IBV_QPT_RC   ? ""
           : which.type == IBV_QPT_UC ? "Unreliable"
                                      : "Datagram")
       << which.bytes;
}
std::vector<Case> cases_of(ibv_qp_type type, std::initializer_list<std::uint32_t> sizes) {
  std::vector<Case> cases;
  for (const Place place : {Place::this_process, Place::other_process})
    for (const Memory memory : {Memory::plain, Memory::buffer})
      for (const std::uint32_t bytes : sizes) cases.push_back({place, memory, type, bytes});
  return cases;
}
/// Small enough to travel in the completion, small enough for the arena, and too large for both.
std::vector<Case> reliable_cases() { return cases_of(IBV_QPT_RC, {32, 2048, 16'384}); }
/// What is too large is placed when it arrives, whatever the type. A datagram is never that large.
std::vector<Case> all_cases() {
  std::vector<Case> cases = reliable_cases();
  std::ranges::copy(cases_of(IBV_QPT_UC, {32, 2048}), std::back_inserter(cases));
  std::ranges::copy(cases_of(IBV_QPT_UD, {16, 900}), std::back_inserter(cases));
  return cases;
}

/// One receive that a message has filled, and that nobody has polled.
struct Delivered {
  explicit Delivered(const Case& which, unsigned queue_pairs = 1, bool shared = false)
      : bytes(which.bytes),
        header(which.type == IBV_QPT_UD ? kHeader : 0),
        side({.peer = which.place,
              .type = which.type,
              .queue_pairs = queue_pairs,
              .shared = shared}),
        memory(kRoom, which.allocator(side)) {
    memory.fill(kOld);
    region = side.expose(memory.bytes());
    // An unreliable sender's completion says nothing about the receiver's, but its event does.
    const bool waits = which.type != IBV_QPT_RC;
    if (waits) {
      EXPECT_EQ(ibv_req_notify_cq(side.queue.get(), 0), 0);
    }
    const raw::Piece into = raw::local(region.get(), 0, kRoom);
    EXPECT_EQ(shared ? raw::post_receive(side.shared.get(), 7, into)
                     : raw::post_receive(side.queue_pair(), 7, into),
              0);
    EXPECT_EQ(side.peer->execute({.fill = kSent, .bytes = bytes}).status, IBV_WC_SUCCESS);
    if (waits && !raw::is_readable(side.channel->fd, kPatience))
      give_up("no event came", Where::current());
  }
  /// The completion of the receive is good, whatever happened to its memory since.
  void expect_completion() const {
    const ibv_wc found = raw::poll_one(side.queue.get());
    EXPECT_EQ(found.status, IBV_WC_SUCCESS);
    EXPECT_EQ(found.wr_id, 7u);
    EXPECT_EQ(found.byte_len, header + bytes);
  }
  [[nodiscard]] std::span<const std::byte> message() const {
    return memory.bytes().subspan(header, bytes);
  }
  [[nodiscard]] std::span<const std::byte> behind() const {
    return memory.bytes().subspan(header + bytes);
  }
  [[nodiscard]] raw::Piece target() const { return raw::remote(region.get(), 0, bytes); }

  std::uint32_t bytes;
  std::size_t header;  ///< Where the message begins.
  Watched side;
  raw::Mapping memory;
  raw::Owned<ibv_mr> region;
};

/// With each type of queue pair.
class Placement : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().type == IBV_QPT_UC && !capabilities().unreliable_connection)
      GTEST_SKIP() << "the device has no unreliable connections";
    if (GetParam().type == IBV_QPT_UD && !capabilities().unreliable_datagram)
      GTEST_SKIP() << "the device has no datagrams";
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Placement, testing::ValuesIn(all_cases()),
                         testing::PrintToStringParamName());

/// With reliable connections, whose requests are ordered.
class PlacementOrder : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Sizes, PlacementOrder, testing::ValuesIn(reliable_cases()),
                         testing::PrintToStringParamName());

// ---- The registration ends

TEST_P(Placement, MessageIsThereWhenItsRegionEndsBeforeThePoll) {
  Delivered receive(GetParam());
  receive.region.reset();
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.message(), kSent));
  EXPECT_TRUE(all_equal(receive.behind(), kOld));
}

TEST_P(Placement, PollLeavesMemoryAloneWhoseRegionEnded) {
  Delivered receive(GetParam());
  receive.region.reset();
  receive.memory.fill(kLater);
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater))
      << "polling wrote into the program's memory";
}

TEST_P(Placement, PollSurvivesMemoryThatWasUnmapped) {
  contained([] {
    Delivered receive(GetParam());
    receive.region.reset();
    receive.memory.unmap();
    receive.expect_completion();
  });
}

TEST_P(Placement, DestroyedQueuePairLeavesMemoryAloneWhoseRegionEnded) {
  Delivered receive(GetParam());
  receive.region.reset();
  receive.memory.fill(kLater);
  receive.side.queue_pairs.clear();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater))
      << "destroying wrote into the program's memory";
}

TEST_P(Placement, DestroyedQueuePairSurvivesMemoryThatWasUnmapped) {
  contained([] {
    Delivered receive(GetParam());
    receive.region.reset();
    receive.memory.unmap();
    receive.side.queue_pairs.clear();
  });
}

TEST_P(Placement, ResetQueuePairSurvivesMemoryThatWasUnmapped) {
  contained([] {
    Delivered receive(GetParam());
    receive.region.reset();
    receive.memory.unmap();
    EXPECT_EQ(raw::change_state(receive.side.queue_pair(), IBV_QPS_RESET), 0);
    receive.side.queue_pairs.clear();
  });
}

TEST_P(Placement, DestroyedQueuePairDoesNotTakeTheMessageBack) {
  Delivered receive(GetParam());
  receive.side.queue_pairs.clear();
  receive.region.reset();
  EXPECT_TRUE(all_equal(receive.message(), kSent)) << "the peer was told that it had arrived";
}

TEST_P(Placement, RegionThatEndsAfterItsQueuePairIsNotWritten) {
  Delivered receive(GetParam());
  receive.side.queue_pairs.clear();
  EXPECT_TRUE(all_equal(receive.message(), kSent));
  receive.memory.fill(kLater);
  receive.region.reset();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater))
      << "the end of the region wrote into the program's memory";
}

TEST_P(Placement, PollLeavesMemoryAloneFromWhichTheRegionWasMoved) {
  Delivered receive(GetParam());
  const raw::Mapping other(kRoom, GetParam().allocator(receive.side));
  other.fill(kOld);
  const int error = raw::verbs().rereg_mr(receive.region.get(), IBV_REREG_MR_CHANGE_TRANSLATION,
                                          nullptr, other.bytes().data(), kRoom, 0);
  if (error != 0) GTEST_SKIP() << "the device cannot move a region";
  EXPECT_TRUE(all_equal(receive.message(), kSent)) << "it came before the region was moved";
  receive.memory.fill(kLater);
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater));
  EXPECT_TRUE(all_equal(other.bytes(), kOld)) << "the message is not for the new place";
}

TEST_P(Placement, MessageIsThereWhenTheRegionLosesItsRightsBeforeThePoll) {
  Delivered receive(GetParam());
  const int error = raw::verbs().rereg_mr(receive.region.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                                          nullptr, 0, IBV_ACCESS_REMOTE_READ);
  if (error != 0) GTEST_SKIP() << "the device cannot change the rights of a region";
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.message(), kSent));
}

// ---- What comes behind the message

TEST_P(PlacementOrder, ReadBehindTheMessageSeesIt) {
  Delivered receive(GetParam());
  const Outcome read = receive.side.peer->execute(
      {.kind = Order::Kind::read, .bytes = receive.bytes, .target = receive.target()});
  EXPECT_EQ(read.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(read.uniform);
  EXPECT_EQ(std::byte(read.word & 0xff), kSent) << "the read saw what was there before the message";
  receive.expect_completion();
}

TEST_P(PlacementOrder, WriteBehindTheMessageStays) {
  Delivered receive(GetParam());
  EXPECT_EQ(receive.side.peer
                ->execute({.kind = Order::Kind::write,
                           .fill = kLater,
                           .bytes = receive.bytes,
                           .target = receive.target()})
                .status,
            IBV_WC_SUCCESS);
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.message(), kLater))
      << "the older message overwrote the newer write";
}

TEST_P(PlacementOrder, AtomicBehindTheMessageSeesIt) {
  if (!capabilities().atomics) GTEST_SKIP() << "the device has no atomics";
  Delivered receive(GetParam());
  raw::Piece word = receive.target();
  word.bytes = 8;
  const Outcome added =
      receive.side.peer->execute({.kind = Order::Kind::fetch_add, .bytes = 8, .target = word});
  EXPECT_EQ(added.status, IBV_WC_SUCCESS);
  EXPECT_EQ(added.word, 0x5a5a5a5a5a5a5a5a) << "the atomic saw what was there before the message";
  receive.expect_completion();
  std::uint64_t now = 0;
  std::memcpy(&now, receive.message().data(), sizeof now);
  EXPECT_EQ(now, 0x5a5a5a5a5a5a5a5b) << "the older message overwrote the newer sum";
}

/// A region whose peer has already written to it and read it. So where the peer of the software
/// device maps the memory, it knows the region, and later requests try the fast path.
struct KnownRegion {
  explicit KnownRegion(const Case& which)
      : bytes(which.bytes), side({.peer = which.place}), memory(kRoom, which.allocator(side)) {
    region = side.expose(memory.bytes());
    for (int i = 0; i < 3; ++i) {
      execute(Order::Kind::write);
      execute(Order::Kind::read);
    }
  }
  Outcome execute(Order::Kind kind) const {
    const Outcome outcome = side.peer->execute({.kind = kind,
                                                .fill = kLater,
                                                .bytes = bytes,
                                                .target = raw::remote(region.get(), 0, bytes)});
    EXPECT_EQ(outcome.status, IBV_WC_SUCCESS);
    return outcome;
  }
  /// The message waits to be polled.
  void take_message() const {
    ASSERT_EQ(raw::post_receive(side.queue_pair(), 7, raw::local(region.get(), 0, kRoom)), 0);
    EXPECT_EQ(side.peer->execute({.fill = kSent, .bytes = bytes}).status, IBV_WC_SUCCESS);
  }
  void poll() const { EXPECT_EQ(raw::poll_ok(side.queue.get()).byte_len, bytes); }
  /// No message waits, so the peer's request takes no detour, and the next one could be like it.
  void let_peer_learn(Order::Kind kind) const {
    take_message();
    poll();
    execute(kind);
  }

  std::uint32_t bytes;
  Watched side;
  raw::Mapping memory;
  raw::Owned<ibv_mr> region;
};

TEST_P(PlacementOrder, WriteLikeEarlierOnesStays) {
  const KnownRegion known(GetParam());
  for (int round = 0; round < 3; ++round) {
    if (round > 0) known.let_peer_learn(Order::Kind::write);
    known.take_message();
    known.execute(Order::Kind::write);
    known.poll();
    EXPECT_TRUE(all_equal(known.memory.bytes().first(known.bytes), kLater))
        << "round " << round << ": the older message overwrote the newer write";
  }
}

TEST_P(PlacementOrder, ReadLikeEarlierOnesSeesTheMessage) {
  const KnownRegion known(GetParam());
  for (int round = 0; round < 3; ++round) {
    if (round > 0) known.let_peer_learn(Order::Kind::read);
    known.memory.fill(kOld);
    known.take_message();
    const Outcome read = known.execute(Order::Kind::read);
    EXPECT_TRUE(read.uniform);
    EXPECT_EQ(std::byte(read.word & 0xff), kSent)
        << "round " << round << ": the read saw what was there before the message";
    known.poll();
  }
}

// Requests on two queue pairs are ordered, too, if the second is posted after the completion of the
// first was there.
TEST_P(PlacementOrder, ReadThroughAnotherQueuePairSeesIt) {
  Delivered receive(GetParam(), 2);
  const Outcome read = receive.side.peer->execute({.kind = Order::Kind::read,
                                                   .queue_pair = 1,
                                                   .bytes = receive.bytes,
                                                   .target = receive.target()});
  EXPECT_EQ(read.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(read.uniform);
  EXPECT_EQ(std::byte(read.word & 0xff), kSent) << "the read saw what was there before the message";
  receive.expect_completion();
}

TEST_P(PlacementOrder, WriteThroughAnotherQueuePairStays) {
  Delivered receive(GetParam(), 2);
  EXPECT_EQ(receive.side.peer
                ->execute({.kind = Order::Kind::write,
                           .queue_pair = 1,
                           .fill = kLater,
                           .bytes = receive.bytes,
                           .target = receive.target()})
                .status,
            IBV_WC_SUCCESS);
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.message(), kLater))
      << "the older message overwrote the newer write";
}

TEST_P(PlacementOrder, MessagesOfTwoQueuePairsIntoOneBufferEndAsTheLaterOne) {
  Delivered receive(GetParam(), 2);
  ASSERT_EQ(
      raw::post_receive(receive.side.queue_pair(1), 8, raw::local(receive.region.get(), 0, kRoom)),
      0);
  EXPECT_EQ(
      receive.side.peer->execute({.queue_pair = 1, .fill = kLater, .bytes = receive.bytes}).status,
      IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(receive.side.queue.get()).byte_len, receive.bytes);
  EXPECT_EQ(raw::poll_ok(receive.side.queue.get()).byte_len, receive.bytes);
  EXPECT_TRUE(all_equal(receive.message(), kLater));
}

// ---- The same memory in two regions, and in two receives

TEST_P(PlacementOrder, ReadThroughAnotherRegionSeesIt) {
  Delivered receive(GetParam());
  const raw::Owned<ibv_mr> other = receive.side.expose(receive.memory.bytes());
  const Outcome read =
      receive.side.peer->execute({.kind = Order::Kind::read,
                                  .bytes = receive.bytes,
                                  .target = raw::remote(other.get(), 0, receive.bytes)});
  EXPECT_EQ(read.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(read.uniform);
  EXPECT_EQ(std::byte(read.word & 0xff), kSent) << "the read saw what was there before the message";
  receive.expect_completion();
}

TEST_P(PlacementOrder, WriteThroughARegionThatWasThereBeforeStays) {
  Watched side({.peer = GetParam().place});
  const raw::Mapping memory(kRoom, GetParam().allocator(side));
  const raw::Owned<ibv_mr> first = side.expose(memory.bytes());
  const raw::Owned<ibv_mr> second = side.expose(memory.bytes().subspan(16));
  const std::uint32_t bytes = GetParam().bytes;
  const Order write{.kind = Order::Kind::write,
                    .fill = kLater,
                    .bytes = bytes,
                    .target = raw::remote(second.get(), 0, bytes)};
  // Where the peer of the software device maps the memory, the later ones take its fast path.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(side.peer->execute(write).status, IBV_WC_SUCCESS);
  ASSERT_EQ(raw::post_receive(side.queue_pair(), 7, raw::local(first.get(), 16, kRoom - 16)), 0);
  EXPECT_EQ(side.peer->execute({.fill = kSent, .bytes = bytes}).status, IBV_WC_SUCCESS);
  EXPECT_EQ(side.peer->execute(write).status, IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).byte_len, bytes);
  EXPECT_TRUE(all_equal(memory.bytes().subspan(16, bytes), kLater))
      << "the older message overwrote the newer write";
}

TEST_P(PlacementOrder, LongMessageBehindItIntoTheSameBufferStays) {
  Delivered receive(GetParam());
  const std::uint32_t longer = 3000;
  ASSERT_EQ(
      raw::post_receive(receive.side.queue_pair(), 8, raw::local(receive.region.get(), 0, kRoom)),
      0);
  EXPECT_EQ(receive.side.peer->execute({.fill = kLater, .bytes = longer}).status, IBV_WC_SUCCESS);
  receive.expect_completion();
  EXPECT_EQ(raw::poll_ok(receive.side.queue.get()).byte_len, longer);
  EXPECT_TRUE(all_equal(receive.memory.bytes().first(longer), kLater))
      << "the older message overwrote the newer one";
}

// ---- Several queue pairs on one completion queue

TEST_P(PlacementOrder, RegionOfOneQueuePairEndsWhileTheCompletionsOfTwoWait) {
  Delivered receive(GetParam(), 2);
  const raw::Mapping other(kRoom, GetParam().allocator(receive.side));
  other.fill(kOld);
  const raw::Owned<ibv_mr> other_region = receive.side.expose(other.bytes());
  ASSERT_EQ(
      raw::post_receive(receive.side.queue_pair(1), 8, raw::local(other_region.get(), 0, kRoom)),
      0);
  EXPECT_EQ(
      receive.side.peer->execute({.queue_pair = 1, .fill = kLater, .bytes = receive.bytes}).status,
      IBV_WC_SUCCESS);
  receive.region.reset();
  receive.memory.fill(kOld);
  unsigned seen = 0;
  for (int i = 0; i < 2; ++i) {
    const ibv_wc found = raw::poll_ok(receive.side.queue.get());
    seen |= found.wr_id == 7 ? 1u : found.wr_id == 8 ? 2u : 4u;
  }
  EXPECT_EQ(seen, 3u);
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kOld));
  EXPECT_TRUE(all_equal(other.bytes().first(receive.bytes), kLater));
}

// ---- Shared receive queues

class SharedPlacement : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!capabilities().shared_receive_queue)
      GTEST_SKIP() << "the device has no shared receive queues";
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, SharedPlacement, testing::ValuesIn(reliable_cases()),
                         testing::PrintToStringParamName());

TEST_P(SharedPlacement, MessageIsThereWhenItsRegionEndsBeforeThePoll) {
  Delivered receive(GetParam(), 1, true);
  receive.region.reset();
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.message(), kSent));
}

TEST_P(SharedPlacement, PollLeavesMemoryAloneWhoseRegionEnded) {
  Delivered receive(GetParam(), 1, true);
  receive.region.reset();
  receive.memory.fill(kLater);
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater))
      << "polling wrote into the program's memory";
}

TEST_P(SharedPlacement, DestroyedQueuePairLeavesMemoryAloneWhoseRegionEnded) {
  Delivered receive(GetParam(), 1, true);
  receive.region.reset();
  receive.memory.fill(kLater);
  receive.side.queue_pairs.clear();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater))
      << "destroying wrote into the program's memory";
}

}  // namespace
}  // namespace verbatim::test
