// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message that is like those before it may take a shorter path; as soon as something is
//       different, it is treated like a first message.
// Method: a peer sends some small messages of one kind, and without a pause one with a different
//         receive, memory, size or queue.
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/raw_peer.hpp"
#include "support/pattern.hpp"

namespace verbatim::test {
namespace {

constexpr std::byte kOld{0x11};
constexpr std::byte kNew{0x77};
constexpr std::size_t kRoom = 4096;
constexpr std::uint32_t kUsual = 8;
constexpr unsigned kWarm = 5;

class RepeatedSends : public testing::TestWithParam<Place> {
 protected:
  RepeatedSends() { std::ranges::fill(memory, kOld); }

  /// Posts the receive of the next send(), behind those of the messages before it.
  void receive_in(std::span<ibv_sge> elements) {
    post_usual();
    ibv_recv_wr request{.wr_id = ++posted,
                        .next = nullptr,
                        .sg_list = elements.data(),
                        .num_sge = static_cast<int>(elements.size())};
    ibv_recv_wr* rejected = nullptr;
    ASSERT_EQ(ibv_post_recv(side.queue_pair(), &request, &rejected), 0);
  }
  void receive_at(std::uint32_t offset, std::uint32_t bytes) {
    const raw::Piece into = raw::local(region.get(), offset, bytes);
    ibv_sge element{into.address, into.bytes, into.key};
    receive_in({&element, 1});
  }
  void post_usual() {
    for (unsigned i = 0; i < kWarm; ++i)
      ASSERT_EQ(
          raw::post_receive(side.queue_pair(), kUsualId, raw::local(region.get(), kRoom, kUsual)),
          0);
  }
  /// Sends some usual messages, and without a pause this one, with different content.
  Outcome send(std::uint32_t bytes, bool unwatched = false) {
    fill = std::byte(static_cast<unsigned char>(fill) + 1);
    const Outcome outcome =
        side.peer->execute({.fill = fill, .unwatched = unwatched, .before = kWarm, .bytes = bytes});
    for (unsigned i = 0; i < kWarm; ++i) EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, kUsualId);
    return outcome;
  }
  static constexpr std::uint64_t kUsualId = 1'000'000;

  Watched side{{.peer = GetParam()}};
  raw::Mapping mapping{2 * kRoom};  ///< The second half is for the usual messages.
  raw::Owned<ibv_mr> region = side.expose(mapping.bytes());
  std::span<std::byte> memory = mapping.bytes().first(kRoom);
  std::uint64_t posted = 0;
  std::byte fill{0x20};
};
INSTANTIATE_TEST_SUITE_P(Places, RepeatedSends,
                         testing::Values(Place::this_process, Place::other_process),
                         [](const auto& which) {
                           return which.param == Place::this_process ? "Within" : "Between";
                         });

TEST_P(RepeatedSends, EverySizeArrivesWhole) {
  for (std::uint32_t bytes = 0; bytes <= 70; ++bytes) {
    std::ranges::fill(memory, kOld);
    receive_at(64, 512);
    ASSERT_EQ(send(bytes).status, IBV_WC_SUCCESS) << bytes;
    const ibv_wc found = raw::poll_ok(side.queue.get());
    EXPECT_EQ(found.byte_len, bytes);
    EXPECT_EQ(found.wr_id, posted);
    EXPECT_EQ(found.qp_num, side.queue_pair()->qp_num);
    EXPECT_TRUE(all_equal(memory.subspan(64, bytes), fill)) << bytes;
    EXPECT_TRUE(all_equal(memory.first(64), kOld)) << bytes;
    EXPECT_TRUE(all_equal(memory.subspan(64 + bytes), kOld)) << bytes;
  }
}

TEST_P(RepeatedSends, ReceiveInTwoElementsIsFilledInOrder) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  ibv_sge elements[2] = {{address, 3, region->lkey}, {address + 100, 100, region->lkey}};
  receive_in(elements);
  ASSERT_EQ(send(kUsual).status, IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, posted);
  EXPECT_TRUE(all_equal(memory.first(3), fill));
  EXPECT_TRUE(all_equal(memory.subspan(3, 97), kOld));
  EXPECT_TRUE(all_equal(memory.subspan(100, kUsual - 3), fill));
  EXPECT_TRUE(all_equal(memory.subspan(100 + kUsual - 3), kOld));
}

TEST_P(RepeatedSends, OneThatDoesNotFitBreaksBothSides) {
  receive_at(0, kUsual - 1);
  EXPECT_EQ(send(kUsual).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(raw::poll_one(side.queue.get()).status, IBV_WC_LOC_LEN_ERR);
  EXPECT_TRUE(all_equal(memory, kOld));
}

TEST_P(RepeatedSends, OneIntoARegionThatEndedWritesNothing) {
  raw::Mapping other{kRoom};
  auto its_region = side.expose(other.bytes());
  const raw::Piece into = raw::local(its_region.get(), 0, kUsual);
  ibv_sge element{into.address, into.bytes, into.key};
  receive_in({&element, 1});
  ASSERT_EQ(send(kUsual).status, IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, posted);
  receive_in({&element, 1});
  its_region.reset();
  other.fill(kNew);
  EXPECT_EQ(send(kUsual).status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(raw::poll_one(side.queue.get()).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_TRUE(all_equal(other.bytes(), kNew));
}

TEST_P(RepeatedSends, OneIntoAnotherRegionArrives) {
  raw::Mapping other{kRoom};
  other.fill(kOld);
  const auto its_region = side.expose(other.bytes());
  const raw::Piece into = raw::local(its_region.get(), 8, kUsual);
  ibv_sge element{into.address, into.bytes, into.key};
  receive_in({&element, 1});
  ASSERT_EQ(send(kUsual).status, IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, posted);
  EXPECT_TRUE(all_equal(other.bytes().subspan(8, kUsual), fill));
  EXPECT_TRUE(all_equal(memory, kOld));
}

TEST_P(RepeatedSends, OneThatComesBeforeItsReceiveWaitsForIt) {
  post_usual();
  ASSERT_EQ(send(kUsual, true).status, IBV_WC_SUCCESS);
  ASSERT_EQ(raw::post_receive(side.queue_pair(), 9, raw::local(region.get(), 0, kUsual)), 0);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, 9u);
  EXPECT_TRUE(all_equal(memory.first(kUsual), fill));
}

TEST_P(RepeatedSends, QueueThatWasResizedGetsThem) {
  receive_at(0, kUsual);
  ASSERT_EQ(send(kUsual).status, IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, posted);
  if (raw::verbs().resize_cq(side.queue.get(), 1000) != 0)
    GTEST_SKIP() << "the device resizes no queue";
  receive_at(0, kUsual);
  ASSERT_EQ(send(kUsual).status, IBV_WC_SUCCESS);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, posted);
  EXPECT_TRUE(all_equal(memory.first(kUsual), fill));
}

TEST_P(RepeatedSends, SleeperIsWoken) {
  receive_at(0, kUsual);
  ASSERT_EQ(ibv_req_notify_cq(side.queue.get(), 0), 0);
  ASSERT_EQ(send(kUsual).status, IBV_WC_SUCCESS);
  ibv_cq* rung = nullptr;
  void* ignored = nullptr;
  ASSERT_EQ(raw::verbs().get_cq_event(side.channel.get(), &rung, &ignored), 0);
  EXPECT_EQ(rung, side.queue.get());
  raw::verbs().ack_cq_events(rung, 1);
  EXPECT_EQ(raw::poll_ok(side.queue.get()).wr_id, posted);
}

}  // namespace
}  // namespace verbatim::test
