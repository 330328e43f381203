// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message is in its receive buffer as if the device had put it there when it arrived: later
//       requests see it, later writes stay, and memory whose registration has ended belongs to the
//       program again, whether the completion was polled or not.
// Method: a peer sends and gets its completion, but the receiver has not polled. Then memory,
//         region or queue pair go, or another request arrives; then the receiver polls.
// Covers: soft/deliver.cpp
#include <gtest/gtest.h>

#include <cstring>
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
constexpr std::size_t kRoom = 32 << 10;
constexpr std::size_t kHeader = 40;  ///< At the start of a datagram's receive buffer.

/// Small enough to travel in the completion, small enough for the arena, and too large for both.
constexpr std::uint32_t kSizes[] = {32, 2048, 16'384};

struct Case {
  Place place;
  std::uint32_t bytes;
};
void PrintTo(const Case& which, std::ostream* out) {
  *out << (which.place == Place::this_process ? "Within" : "Between") << which.bytes;
}
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Place place : {Place::this_process, Place::other_process})
    for (const std::uint32_t bytes : kSizes) cases.push_back({place, bytes});
  return cases;
}

/// One receive of `bytes` bytes that a message has filled, and that nobody has polled.
struct Delivered {
  explicit Delivered(const Case& which, unsigned queue_pairs = 1, bool shared = false)
      : bytes(which.bytes),
        side({.peer = which.place, .queue_pairs = queue_pairs, .shared = shared}) {
    memory.fill(kOld);
    region = side.expose(memory.bytes());
    const raw::Piece into = raw::local(region.get(), 0, kRoom);
    EXPECT_EQ(shared ? raw::post_receive(side.shared.get(), 7, into)
                     : raw::post_receive(side.queue_pair(), 7, into),
              0);
    EXPECT_EQ(side.peer->execute({.fill = kSent, .bytes = bytes}).status, IBV_WC_SUCCESS);
  }
  /// The completion of the receive is good, whatever happened to its memory since.
  void expect_completion() const {
    const ibv_wc found = raw::poll_one(side.queue.get());
    EXPECT_EQ(found.status, IBV_WC_SUCCESS);
    EXPECT_EQ(found.wr_id, 7u);
    EXPECT_EQ(found.byte_len, bytes);
  }
  [[nodiscard]] std::span<const std::byte> message() const { return memory.bytes().first(bytes); }
  [[nodiscard]] raw::Piece target() const { return raw::remote(region.get(), 0, bytes); }

  std::uint32_t bytes;
  raw::Mapping memory{kRoom};
  Watched side;
  raw::Owned<ibv_mr> region;
};

class Placement : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Placement, testing::ValuesIn(all_cases()),
                         testing::PrintToStringParamName());

// ---- The registration ends

TEST_P(Placement, MessageIsThereWhenItsRegionEndsBeforeThePoll) {
  Delivered receive(GetParam());
  receive.region.reset();
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.message(), kSent));
  EXPECT_TRUE(all_equal(receive.memory.bytes().subspan(receive.bytes), kOld));
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

TEST_P(Placement, PollLeavesMemoryAloneFromWhichTheRegionWasMoved) {
  Delivered receive(GetParam());
  const raw::Mapping other(kRoom);
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

TEST_P(Placement, ReadBehindTheMessageSeesIt) {
  Delivered receive(GetParam());
  const Outcome read = receive.side.peer->execute(
      {.kind = Order::Kind::read, .bytes = receive.bytes, .target = receive.target()});
  EXPECT_EQ(read.status, IBV_WC_SUCCESS);
  EXPECT_TRUE(read.uniform);
  EXPECT_EQ(std::byte(read.word & 0xff), kSent) << "the read saw what was there before the message";
  receive.expect_completion();
}

TEST_P(Placement, WriteBehindTheMessageStays) {
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

TEST_P(Placement, AtomicBehindTheMessageSeesIt) {
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

// Requests on two queue pairs are ordered, too, if the second is posted after the completion of the
// first was there.
TEST_P(Placement, ReadThroughAnotherQueuePairSeesIt) {
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

TEST_P(Placement, WriteThroughAnotherQueuePairStays) {
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

TEST_P(Placement, MessagesOfTwoQueuePairsIntoOneBufferEndAsTheLaterOne) {
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

// ---- Several queue pairs on one completion queue

TEST_P(Placement, RegionOfOneQueuePairEndsWhileTheCompletionsOfTwoWait) {
  Delivered receive(GetParam(), 2);
  const raw::Mapping other(kRoom);
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
INSTANTIATE_TEST_SUITE_P(Sizes, SharedPlacement, testing::ValuesIn(all_cases()),
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

// ---- Datagrams

class DatagramPlacement : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!capabilities().unreliable_datagram) GTEST_SKIP() << "the device has no datagrams";
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, DatagramPlacement,
                         testing::Values(Case{Place::this_process, 16},
                                         Case{Place::this_process, 900},
                                         Case{Place::other_process, 16},
                                         Case{Place::other_process, 900}),
                         testing::PrintToStringParamName());

/// The sender's completion says nothing about the receiver's, but its event does.
struct DeliveredDatagram {
  explicit DeliveredDatagram(const Case& which)
      : bytes(which.bytes), side({.peer = which.place, .type = IBV_QPT_UD}) {
    memory.fill(kOld);
    region = side.expose(memory.bytes());
    EXPECT_EQ(ibv_req_notify_cq(side.queue.get(), 0), 0);
    EXPECT_EQ(raw::post_receive(side.queue_pair(), 7, raw::local(region.get(), 0, kRoom)), 0);
    EXPECT_EQ(side.peer->execute({.fill = kSent, .bytes = bytes}).status, IBV_WC_SUCCESS);
    if (!raw::is_readable(side.channel->fd, kPatience)) give_up("no event came", Where::current());
  }
  void expect_completion() const {
    const ibv_wc found = raw::poll_one(side.queue.get());
    EXPECT_EQ(found.status, IBV_WC_SUCCESS);
    EXPECT_EQ(found.byte_len, kHeader + bytes);
  }
  std::uint32_t bytes;
  raw::Mapping memory{kRoom};
  Watched side;
  raw::Owned<ibv_mr> region;
};

TEST_P(DatagramPlacement, MessageIsThereWhenItsRegionEndsBeforeThePoll) {
  DeliveredDatagram receive(GetParam());
  receive.region.reset();
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.memory.bytes().subspan(kHeader, receive.bytes), kSent));
}

TEST_P(DatagramPlacement, PollLeavesMemoryAloneWhoseRegionEnded) {
  DeliveredDatagram receive(GetParam());
  receive.region.reset();
  receive.memory.fill(kLater);
  receive.expect_completion();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater));
}

TEST_P(DatagramPlacement, PollSurvivesMemoryThatWasUnmapped) {
  contained([] {
    DeliveredDatagram receive(GetParam());
    receive.region.reset();
    receive.memory.unmap();
    receive.expect_completion();
  });
}

TEST_P(DatagramPlacement, DestroyedQueuePairLeavesMemoryAloneWhoseRegionEnded) {
  DeliveredDatagram receive(GetParam());
  receive.region.reset();
  receive.memory.fill(kLater);
  receive.side.queue_pairs.clear();
  EXPECT_TRUE(all_equal(receive.memory.bytes(), kLater));
}

}  // namespace
}  // namespace verbatim::test
