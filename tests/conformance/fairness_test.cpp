// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: on a completion queue that both kinds of completion share, neither kind waits for ever
//       behind the other, whether the program polls one at a time or many.
// Method: one kind never ends, because each one that is polled is posted again; the other kind must
//         come within a bound.
// Covers: soft/poll.cpp
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>

#include "conformance/raw_peer.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint64_t kRare = 1000;  ///< The request for whose completion the test waits.
constexpr std::uint32_t kMessageBytes = 8;
constexpr std::size_t kEndless = 16;  ///< How many of the other kind are in flight.
/// How many of the endless kind may come before the rare one. A queue in order needs no more than
/// are in flight. A device that works only while it is polled may be late by some rounds.
constexpr std::size_t kBound = 2000;

/// The type of the queue pairs, and how many completions are polled at once.
using FairCase = std::tuple<ibv_qp_type, int>;
std::string name_of(const testing::TestParamInfo<FairCase>& info) {
  const ibv_qp_type type = std::get<0>(info.param);
  const char* const name = type == IBV_QPT_RC   ? "Reliable"
                           : type == IBV_QPT_UC ? "Unreliable"
                                                : "Datagram";
  return std::string{name} + "PollOf" + std::to_string(std::get<1>(info.param));
}

/// Polls until the rare one is there. `again` posts one of the endless kind.
template <class Again>
testing::AssertionResult rare_one_comes(ibv_cq* queue, int at_once, Again again) {
  std::array<ibv_wc, 16> found{};
  std::size_t others = 0;
  bool came = false;
  const bool ended = eventually([&] {
    const int count = ibv_poll_cq(queue, at_once, found.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& each = found[static_cast<std::size_t>(i)];
      if (each.status != IBV_WC_SUCCESS) give_up("a request failed", Where::current());
      if (each.wr_id == kRare) {
        came = true;
      } else {
        again();
        ++others;
      }
    }
    return came || others > kBound;
  });
  if (came) return testing::AssertionSuccess();
  return testing::AssertionFailure() << (ended ? "starved" : "nothing more came") << " after "
                                     << others << " of the other kind";
}

/// Two queue pairs that reach each other: `watched` has one completion queue for everything.
struct Mixed {
  explicit Mixed(ibv_qp_type type)
      : watched(raw::queue_pair(
            {.domain = domain.get(), .sends = mixed.get(), .receives = mixed.get(), .type = type})),
        other(raw::queue_pair({.domain = domain.get(),
                               .sends = aside.get(),
                               .receives = aside.get(),
                               .type = type})) {
    raw::connect(watched.get(), other.get());
    if (type != IBV_QPT_UD) return;
    to_watched = raw::address_handle(domain.get(), raw::address_of(watched.get()));
    to_other = raw::address_handle(domain.get(), raw::address_of(other.get()));
  }
  /// Sent by the watched side. Nobody has a receive for it: a write needs none, and a datagram is
  /// lost.
  void send(std::uint64_t id) const {
    const raw::Piece from = raw::local(region.get(), 1024, kMessageBytes);
    EXPECT_EQ(to_other ? raw::post_datagram(watched.get(), id, from, to_other.get(), other->qp_num)
                       : raw::post_write(watched.get(), id, from,
                                         raw::remote(region.get(), 2048, kMessageBytes)),
              0);
  }
  /// Sent to the watched side, which first posts a receive for it.
  void deliver(std::uint64_t id) const {
    ASSERT_EQ(raw::post_receive(watched.get(), id, raw::local(region.get(), 0, 64)), 0);
    const raw::Piece from = raw::local(region.get(), 1024, kMessageBytes);
    ASSERT_EQ(to_watched
                  ? raw::post_datagram(other.get(), 1, from, to_watched.get(), watched->qp_num)
                  : raw::post_send(other.get(), 1, from),
              0);
    raw::poll_ok(aside.get());
  }
  void arm() const { ASSERT_EQ(ibv_req_notify_cq(mixed.get(), 0), 0); }
  /// Returns when a completion is in the queue, without polling for it.
  void expect_event() const { ASSERT_TRUE(raw::is_readable(channel->fd, kPatience)); }

  raw::Owned<ibv_context> context = raw::open();
  raw::Owned<ibv_pd> domain = raw::domain(context.get());
  raw::Owned<ibv_comp_channel> channel = raw::channel(context.get());
  raw::Owned<ibv_cq> mixed = raw::completion_queue(context.get(), 256, channel.get());
  raw::Owned<ibv_cq> aside = raw::completion_queue(context.get());
  raw::Mapping memory{4096};
  raw::Owned<ibv_mr> region = raw::region(domain.get(), memory.bytes());
  raw::Owned<ibv_ah> to_watched;
  raw::Owned<ibv_ah> to_other;
  raw::Owned<ibv_qp> watched;
  raw::Owned<ibv_qp> other;
};

/// Adds a queue pair on the same completion queue that another process reaches.
struct MixedBetween : Mixed {
  explicit MixedBetween(ibv_qp_type type)
      : Mixed(type),
        reached(raw::queue_pair(
            {.domain = domain.get(), .sends = mixed.get(), .receives = mixed.get(), .type = type})),
        peer(make_raw_peer(Place::other_process, type, 1)) {
    raw::connect(reached.get(), peer->addresses()[0]);
    peer->connect(std::array{raw::address_of(reached.get())});
  }
  raw::Owned<ibv_qp> reached;
  std::unique_ptr<RawPeer> peer;
};

class Fairness : public testing::TestWithParam<FairCase> {
 protected:
  void SetUp() override {
    const bool there = type_ == IBV_QPT_RC   ? capabilities().reliable_connection
                       : type_ == IBV_QPT_UC ? capabilities().unreliable_connection
                                             : capabilities().unreliable_datagram;
    if (!there) GTEST_SKIP() << "the device has no such queue pairs";
  }
  ibv_qp_type type_ = std::get<0>(GetParam());
  int at_once_ = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Polls, Fairness,
                         testing::Combine(testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
                                          testing::Values(1, 16)),
                         name_of);

TEST_P(Fairness, ReceiveComesAmongEndlessSends) {
  const Mixed pair(type_);
  pair.arm();
  pair.deliver(kRare);
  pair.expect_event();
  for (std::size_t i = 0; i < kEndless; ++i) pair.send(1);
  EXPECT_TRUE(rare_one_comes(pair.mixed.get(), at_once_, [&] { pair.send(1); }));
}

TEST_P(Fairness, SendComesAmongEndlessReceives) {
  const Mixed pair(type_);
  pair.arm();
  pair.send(kRare);
  pair.expect_event();
  for (std::size_t i = 0; i < kEndless; ++i) pair.deliver(1);
  EXPECT_TRUE(rare_one_comes(pair.mixed.get(), at_once_, [&] { pair.deliver(1); }));
}

TEST_P(Fairness, ReceiveOfAnotherProcessComesAmongEndlessSends) {
  const MixedBetween pair(type_);
  pair.arm();
  ASSERT_EQ(raw::post_receive(pair.reached.get(), kRare, raw::local(pair.region.get(), 0, 64)), 0);
  ASSERT_EQ(pair.peer->execute({.bytes = kMessageBytes}).status, IBV_WC_SUCCESS);
  pair.expect_event();
  for (std::size_t i = 0; i < kEndless; ++i) pair.send(1);
  EXPECT_TRUE(rare_one_comes(pair.mixed.get(), at_once_, [&] { pair.send(1); }));
}

// Ending a registration places the messages that have come, and nothing that comes later overtakes
// them.
TEST_P(Fairness, ReceivesKeepTheirOrderAmongEndlessSends) {
  constexpr std::uint64_t kReceives = 12;
  const MixedBetween pair(type_);
  for (std::uint64_t i = 0; i < kReceives; ++i)
    ASSERT_EQ(
        raw::post_receive(pair.reached.get(), kRare + i, raw::local(pair.region.get(), 0, 64)), 0);
  // Sends fill so many polls first that receives are due when one arrives.
  for (std::size_t i = 0; i < kEndless; ++i) pair.send(1);
  std::array<ibv_wc, 16> found{};
  std::uint64_t next = kRare;
  std::uint64_t sent = 0;
  const auto send_one = [&] {
    if (sent++ < kReceives) {
      ASSERT_EQ(pair.peer->execute({.bytes = kMessageBytes}).status, IBV_WC_SUCCESS);
    }
  };
  std::size_t polls = 0;
  EXPECT_TRUE(eventually([&] {
    const int count = ibv_poll_cq(pair.mixed.get(), at_once_, found.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& each = found[static_cast<std::size_t>(i)];
      if (each.wr_id >= kRare) {
        EXPECT_EQ(each.wr_id, next++);
      } else {
        pair.send(1);
      }
    }
    if (++polls % 70 == 60) {
      send_one();
      raw::Mapping other{4096};
      const raw::Owned<ibv_mr> ended = raw::region(pair.domain.get(), other.bytes());
    }
    if (polls % 70 == 63) send_one();
    return next == kRare + kReceives;
  }));
}

TEST_P(Fairness, SendToAnotherProcessComesAmongEndlessReceives) {
  if (type_ == IBV_QPT_UD) GTEST_SKIP() << "a datagram knows nothing of where it went";
  const MixedBetween pair(type_);
  pair.arm();
  // A write of no bytes needs neither memory nor a receive at the peer.
  ASSERT_EQ(raw::post_write(pair.reached.get(), kRare, {}, {}), 0);
  pair.expect_event();
  for (std::size_t i = 0; i < kEndless; ++i) pair.deliver(1);
  EXPECT_TRUE(rare_one_comes(pair.mixed.get(), at_once_, [&] { pair.deliver(1); }));
}

}  // namespace
}  // namespace verbatim::test
