// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel does its background work in steps that never wait, each at the time that
//       next_deadline() names: keepalives, the wait for news of a failure, the close, the flush.
// Method: a scripted device, a clock that the test moves, and the other end of the link.
// Covers: channel/stepping.cpp, channel/keepalive.cpp, channel/leave.cpp
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "channel/channel_state.hpp"
#include "channel/interrupt.hpp"
#include "channel/prepare_on.hpp"
#include "support/scripted_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = detail::ChannelState::Clock;
using detail::SlotState;
using detail::Ticket;

class Stepping : public ScriptedDevice {
 protected:
  static constexpr auto kInterval = 10s;
  static constexpr auto kNever = Clock::time_point::max();

  /// Connects to itself.
  void make(const ChannelOptions& options = {}) {
    static_cast<void>(prepare());  // Opens the device.
    script = {};
    core = require(detail::CompletionCore::create(domain().context(), 64, 64));
    const std::uint32_t keepalives = options.keepalive != 0ns ? 1 : 0;
    state = require(detail::prepare_on(core, domain(), options,
                                       {.sends = 2, .receives = 2, .keepalives = keepalives}));
    const Endpoint self = state->prepared->endpoint();
    state->queue_pair.emplace(require(std::move(*state->prepared).connect(self)));
    state->limits = detail::Raw::limits(*state->queue_pair);
    state->prepared.reset();
    state->interrupt->admit();
    state->begin_keepalive(start);
  }
  /// Adds a link, whose other end belongs to the test.
  void make_with_link() {
    make();
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    state->link = detail::Link{detail::PrivateDescriptor{ends[0]}};
    peer = detail::PrivateDescriptor{ends[1]};
  }
  void TearDown() override {
    script.flushes = true;
    if (state != nullptr) give_back();
    ScriptedDevice::TearDown();
  }

  /// Takes all results, so that nothing keeps the state.
  void give_back() {
    state->expire({.code = Errc::cancelled, .operation = "test"});
    for (detail::Slot& slot : state->run)
      if (slot.state == SlotState::parked)
        static_cast<void>(state->await(slot, slot.id, 0s, detail::Memory::owned));
    std::exchange(state, nullptr)->abandon();
    core.reset();
  }

  [[nodiscard]] Ticket send() const {
    return state->post(Send{}, {SlotState::flying, std::source_location::current()});
  }
  [[nodiscard]] Ticket receive() const {
    return state->post(Receive{}, {SlotState::flying, std::source_location::current()});
  }
  /// Completes the latest post with this status, and files it.
  void complete_last(ibv_wc_status status = IBV_WC_SUCCESS) {
    script.complete(script.sends.back().id, status);
    ASSERT_EQ(state->core->drain(), 1);
  }
  void take(const Ticket& ticket) const {
    EXPECT_TRUE(state->await(*ticket.slot, ticket.id, 0s, detail::Memory::owned));
  }
  /// Files what the device returns at the end, and finishes the end.
  void expect_end(Errc cause) {
    ASSERT_TRUE(state->cause);
    EXPECT_EQ(state->cause->code, cause);
    while (state->core->drain() > 0) {
    }
    EXPECT_TRUE(state->step({}));
    EXPECT_TRUE(state->is_over());
    EXPECT_EQ(state->next_deadline(), kNever);
  }

  const Clock::time_point start = Clock::now();
  std::shared_ptr<detail::CompletionCore> core{};
  detail::ChannelState* state = nullptr;
  detail::PrivateDescriptor peer{};
};

// ---- Keepalive ----------------------------------------------------------------------------------

using KeepaliveSteps = Stepping;

TEST_F(KeepaliveSteps, NoneUnlessAskedFor) {
  make();
  EXPECT_EQ(state->next_deadline(), kNever);
  EXPECT_FALSE(state->step(start + 1000h));
  EXPECT_TRUE(script.sends.empty());
}

TEST_F(KeepaliveSteps, AreWritesOfNoBytesAfterASilentInterval) {
  make({.keepalive = kInterval});
  EXPECT_EQ(state->next_deadline(), start + kInterval);
  state->step(start + kInterval - 1ns);
  EXPECT_TRUE(script.sends.empty());
  state->step(start + kInterval);
  ASSERT_EQ(script.sends.size(), 1u);
  EXPECT_EQ(script.sends[0].opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(script.sends[0].elements, 0);
  EXPECT_NE(script.sends[0].flags & IBV_SEND_SIGNALED, 0u);
}

TEST_F(KeepaliveSteps, AreOneAtATimeAndGoOn) {
  make({.keepalive = kInterval});
  state->step(start + kInterval);
  EXPECT_EQ(state->next_deadline(), kNever);
  state->step(start + 5 * kInterval);
  EXPECT_EQ(script.sends.size(), 1u);
  complete_last();
  EXPECT_EQ(state->next_deadline(), start + 2 * kInterval);
  state->step(start + 5 * kInterval);
  EXPECT_EQ(script.sends.size(), 2u);
}

TEST_F(KeepaliveSteps, TakeNoPlaceOfTheUsersAndAreNoResult) {
  make({.keepalive = kInterval});
  state->step(start + kInterval);
  const Ticket first = send();
  const Ticket second = send();
  EXPECT_FALSE(first.refused());
  EXPECT_FALSE(second.refused());
  EXPECT_TRUE(send().refused());
  EXPECT_GE(state->limits.max_send_requests, 4u);  // Including the marker.
  script.complete(script.sends[0].id);
  ASSERT_EQ(state->core->drain(), 1);
  EXPECT_EQ(state->watched.filed, 0u);
  EXPECT_TRUE(send().refused());
}

TEST_F(KeepaliveSteps, WaitWhileASendIsOnItsWay) {
  make({.keepalive = kInterval});
  const Ticket sending = send();
  state->step(start + kInterval);
  EXPECT_EQ(script.sends.size(), 1u);
  complete_last();
  take(sending);
  state->step(start + 2 * kInterval);  // A result was taken meanwhile.
  EXPECT_EQ(script.sends.size(), 1u);
  state->step(start + 3 * kInterval);
  EXPECT_EQ(script.sends.size(), 2u);
}

TEST_F(KeepaliveSteps, WaitWhileMessagesAreReceived) {
  make({.keepalive = kInterval});
  for (int i = 1; i <= 3; ++i) {
    const Ticket receiving = receive();
    script.complete(receiving.id, IBV_WC_SUCCESS, IBV_WC_RECV);
    take(receiving);
    state->step(start + i * kInterval);
    EXPECT_TRUE(script.sends.empty());
  }
}

TEST_F(KeepaliveSteps, WithoutAnAnswerThePeerIsLost) {
  for (const ibv_wc_status status :
       {IBV_WC_RETRY_EXC_ERR, IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_REM_ABORT_ERR}) {
    make({.keepalive = kInterval});
    const Ticket receiving = receive();
    state->step(start + kInterval);
    complete_last(status);
    EXPECT_TRUE(state->step(start + kInterval));
    expect_end(Errc::peer_lost);
    EXPECT_STREQ(state->cause->operation, "keepalive");
    EXPECT_FALSE(state->await(*receiving.slot, receiving.id, 0s, detail::Memory::owned));
    EXPECT_EQ(detail::last_result.error.code, Errc::peer_lost);
    give_back();
  }
}

TEST_F(KeepaliveSteps, ThatThePeerRefusesAreNoLostPeer) {
  make({.keepalive = kInterval});
  state->step(start + kInterval);
  complete_last(IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(state->step(start + kInterval));
  expect_end(Errc::work_failed);
}

TEST_F(KeepaliveSteps, InFlightAtTheEndAreForgotten) {
  make({.keepalive = kInterval});
  state->step(start + kInterval);
  script.flushes_only_markers = true;
  state->begin_end({.code = Errc::cancelled, .operation = "test"});
  expect_end(Errc::cancelled);
  script.complete(script.sends[0].id, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(state->core->drain(), 1);
  EXPECT_FALSE(state->ending.failure);
}

TEST_F(KeepaliveSteps, NeedAPeerThatAllowsWrites) {
  PreparedChannel prepared = prepare({.keepalive = kInterval});
  Endpoint peer_endpoint = prepared.endpoint();
  EXPECT_TRUE(peer_endpoint.remote_write);
  peer_endpoint.remote_write = false;
  const auto refused = std::move(prepared).connect(peer_endpoint);
  ASSERT_TRUE(fails_with(refused, Errc::unsupported));
  EXPECT_STREQ(refused.error().field, "keepalive");
  EXPECT_FALSE(prepare({.access = {}}).endpoint().remote_write);
}

// ---- News of a failure --------------------------------------------------------------------------

using NewsSteps = Stepping;

TEST_F(NewsSteps, FailureWithoutALinkEndsAtOnce) {
  make();
  const Ticket sending = send();
  complete_last(IBV_WC_RETRY_EXC_ERR);
  EXPECT_FALSE(state->is_settled(*sending.slot));
  EXPECT_TRUE(state->step(start));
  expect_end(Errc::work_failed);
  EXPECT_TRUE(state->is_settled(*sending.slot));
}

TEST_F(NewsSteps, FailureWaitsForTheLinksWordAndGetsIt) {
  make_with_link();
  const Ticket sending = send();
  complete_last(IBV_WC_RETRY_EXC_ERR);
  const auto now = start + 1h;  // Later than the real time, which is_ready() looks at.
  EXPECT_FALSE(state->step(now));
  EXPECT_FALSE(state->cause);
  EXPECT_TRUE(state->is_ending());
  EXPECT_EQ(state->next_deadline(), now + 20ms);
  EXPECT_EQ(state->link_events(), POLLIN);
  EXPECT_FALSE(state->is_ready(*sending.slot, sending.id));
  peer.reset();
  EXPECT_TRUE(state->step(now + 1ms));
  expect_end(Errc::peer_lost);
  EXPECT_TRUE(state->is_ready(*sending.slot, sending.id));
}

TEST_F(NewsSteps, FailureIsToldWhenNoWordComes) {
  make_with_link();
  static_cast<void>(send());
  complete_last(IBV_WC_RETRY_EXC_ERR);
  EXPECT_FALSE(state->step(start));
  EXPECT_FALSE(state->step(start + 20ms - 1ns));
  EXPECT_TRUE(state->step(start + 20ms));
  expect_end(Errc::work_failed);
}

TEST_F(NewsSteps, FailureThatThePeerAnsweredDoesNotWait) {
  make_with_link();
  static_cast<void>(send());
  complete_last(IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(state->step(start));
  expect_end(Errc::work_failed);
}

TEST_F(NewsSteps, FailureGoesBeforeADeadlineThatPassesMeanwhile) {
  make_with_link();
  const Ticket sending = send();
  complete_last(IBV_WC_RETRY_EXC_ERR);
  EXPECT_FALSE(state->await(*sending.slot, sending.id, 0s, detail::Memory::owned));
  EXPECT_EQ(detail::last_result.error.code, Errc::work_failed);
  EXPECT_EQ(state->cause->code, Errc::work_failed);
}

TEST_F(NewsSteps, PeersEndCountsAfterTheGrace) {
  make_with_link();
  const Ticket receiving = receive();
  peer.reset();
  EXPECT_FALSE(state->step(start));
  EXPECT_EQ(state->next_deadline(), start + detail::ChannelState::kGrace);
  EXPECT_EQ(state->link_events(), 0) << "it would be readable for ever";
  EXPECT_TRUE(state->step(state->next_deadline()));
  expect_end(Errc::peer_lost);
  EXPECT_TRUE(state->is_settled(*receiving.slot));
}

// ---- Close --------------------------------------------------------------------------------------

class CloseSteps : public Stepping {
 protected:
  [[nodiscard]] bool has_said_done() const {
    std::array<std::byte, 64> heard;
    return recv(peer.get(), heard.data(), heard.size(), 0) ==
           static_cast<ssize_t>(detail::kDoneFrame.size());
  }
  void say_done() const {
    ASSERT_EQ(::send(peer.get(), detail::kDoneFrame.data(), detail::kDoneFrame.size(), 0),
              static_cast<ssize_t>(detail::kDoneFrame.size()));
  }
};

TEST_F(CloseSteps, WithoutALinkItEndsWhenTheSendsAreOver) {
  make();
  static_cast<void>(send());
  state->start_close(kForever);
  EXPECT_FALSE(state->step(start));
  EXPECT_FALSE(state->cause);
  complete_last();
  EXPECT_TRUE(state->step(start));
  expect_end(Errc::closed);
}

TEST_F(CloseSteps, RefusesSendsAndTakesReceives) {
  make();
  static_cast<void>(send());
  state->start_close(kForever);
  const Ticket refused = send();
  ASSERT_TRUE(refused.refused());
  EXPECT_EQ(state->refusal(refused.id).code, Errc::closed);
  EXPECT_FALSE(receive().refused());
}

TEST_F(CloseSteps, TellsThePeerAfterTheLastSendAndWaitsForItsWord) {
  make_with_link();
  static_cast<void>(send());
  state->start_close(kForever);
  EXPECT_EQ(state->link_events(), 0);
  EXPECT_FALSE(has_said_done());
  complete_last();
  EXPECT_FALSE(state->step(start));
  EXPECT_TRUE(has_said_done());
  EXPECT_EQ(state->link_events(), POLLIN);
  EXPECT_FALSE(state->step(start + 1h));
  say_done();
  EXPECT_TRUE(state->step(start + 1h));
  expect_end(Errc::closed);
  EXPECT_EQ(state->link.state(), detail::LinkState::none);
}

TEST_F(CloseSteps, EndsAtItsDeadlineAndSaysWhatItWaitedFor) {
  make_with_link();
  state->start_close(start + 1h);
  EXPECT_EQ(state->next_deadline(), start + 1h);
  state->start_close(start + 2h);  // Again, with a new deadline.
  EXPECT_EQ(state->next_deadline(), start + 2h);
  EXPECT_FALSE(state->step(start + 2h - 1ns));
  EXPECT_TRUE(state->step(start + 2h));
  expect_end(Errc::closed);
  const auto late = state->leave.take_result();
  ASSERT_TRUE(fails_with(late, Errc::timed_out));
  EXPECT_STREQ(late.error().field, "the peer's done");
  EXPECT_TRUE(succeeds(state->leave.take_result())) << "told once";
}

TEST_F(CloseSteps, PeerThatIsGoneIsDone) {
  make_with_link();
  state->start_close(kForever);
  peer.reset();
  EXPECT_TRUE(state->step(start));
  expect_end(Errc::closed);
  EXPECT_TRUE(succeeds(state->leave.take_result()));
}

TEST_F(CloseSteps, SendThatFailsMeanwhileIsTold) {
  make();
  static_cast<void>(send());
  state->start_close(kForever);
  complete_last(IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(state->step(start));
  expect_end(Errc::work_failed);
}

TEST_F(CloseSteps, FlushHasADeadlineOfItsOwn) {
  make({.flush_timeout = 1h});
  script.flushes = false;
  state->start_close(kForever);
  ASSERT_TRUE(state->cause);
  EXPECT_GE(state->next_deadline(), start + 1h);
  EXPECT_FALSE(state->step(state->next_deadline() - 1ns));
  EXPECT_TRUE(state->step(state->next_deadline()));
  EXPECT_TRUE(state->ending.destroyed);
}

// ---- The public interface -----------------------------------------------------------------------

using StartClose = ScriptedDevice;

TEST_F(StartClose, IsSeenAtFdAndToldByPoll) {
  open_channel();
  auto sending = channel().send(buffer());
  const int fd = require(channel().fd());
  channel().start_close();
  channel().start_close();
  EXPECT_EQ(require(channel().poll()), 0u);
  EXPECT_FALSE(channel().is_over());
  EXPECT_TRUE(fails_with(channel().send(buffer()).wait().result, Errc::closed));
  script.complete(script.sends[0].id);
  EXPECT_EQ(require(channel().poll()), 1u);
  EXPECT_TRUE(channel().is_over());
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&entry, 1, 0), 1) << "the end is still to be told";
  EXPECT_TRUE(fails_with(channel().poll(), Errc::closed));
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_TRUE(succeeds(channel().close()));
}

TEST_F(StartClose, CloseWaitsForTheRestAndTellsHowItWent) {
  open_channel();
  auto sending = channel().send(buffer());
  channel().start_close();
  EXPECT_TRUE(fails_with(channel().close(1ms), Errc::timed_out));
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::closed));
  EXPECT_TRUE(succeeds(channel().close()));
}

TEST_F(StartClose, TimerMakesFdReadableAtTheDeadline) {
  open_channel();
  auto sending = channel().send(buffer());
  const int fd = require(channel().fd());
  channel().start_close(1ms);
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, 30'000), 1);
  EXPECT_EQ(require(channel().poll()), 1u);  // The send was flushed.
  EXPECT_TRUE(fails_with(channel().poll(), Errc::closed));
  const auto late = channel().close();
  ASSERT_TRUE(fails_with(late, Errc::timed_out));
  EXPECT_STREQ(late.error().field, "the peer's receive");
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::closed));
}

TEST_F(StartClose, KeepaliveMakesFdReadableWhenItIsDue) {
  open_channel({.keepalive = 1ms});
  const int fd = require(channel().fd());
  while (script.sends.empty()) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&entry, 1, 30'000), 1);
    EXPECT_EQ(require(channel().poll()), 0u);
  }
  EXPECT_EQ(channel().free_sends(), 127u);
  script.complete(script.sends[0].id, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(fails_with(channel().poll(), Errc::peer_lost));
}

TEST_F(StartClose, RecycledChannelKeepsItsKeepalive) {
  open_channel({.keepalive = 1ms});
  EXPECT_TRUE(succeeds(channel().close()));
  const std::size_t before = script.sends.size();
  Channel again = connect(require(std::move(channel()).recycle()));
  auto receiving = again.receive(buffer());
  while (script.sends.size() == before) EXPECT_FALSE(receiving.ready_within(1ms));
  EXPECT_EQ(script.sends.back().opcode, IBV_WR_RDMA_WRITE);
  EXPECT_FALSE(again.cause());
}

// ---- What a late call waited for ----------------------------------------------------------------

class LateFor : public ScriptedDevice {
 protected:
  template <class Late>
  static void expect_field(const Late& late, const char* field) {
    ASSERT_TRUE(fails_with(late, Errc::timed_out));
    EXPECT_STREQ(late.error().field, field);
  }
  static constexpr const char* kReceive = "the peer's receive";
};

TEST_F(LateFor, SendThePeersReceive) {
  open_channel();
  expect_field(channel().send(buffer()).wait(0ms).result, kReceive);
  EXPECT_STREQ(channel().cause()->field, kReceive);
}

TEST_F(LateFor, WriteNothingUnlessItTakesAReceive) {
  open_channel();
  const WriteTarget to{RemoteMemoryRegion{.length = 64}};
  expect_field(channel().write(buffer(), to).wait(0ms).result, "");
  open_channel();
  expect_field(channel().write(buffer(), to, {}, {.immediate = 1}).wait(0ms).result, kReceive);
}

TEST_F(LateFor, ReceiveNothing) {
  open_channel();
  auto sending = channel().send(buffer());
  expect_field(channel().receive(buffer()).wait(0ms).result, "");
}

TEST_F(LateFor, SendWithLimitedRetriesNothing) {
  open_channel({.max_rnr_retries = require(MaxRnrRetries::limited(3))});
  expect_field(channel().send(buffer()).wait(0ms).result, "");
}

TEST_F(LateFor, OperationOfAScopeThePeersReceive) {
  open_channel();
  Buffer memory = buffer();
  static_cast<void>(channel().scope([&](Scope& scope) {
    expect_field(scope.wait(scope.post(Send{memory.gather()}), 0ms), kReceive);
  }));
}

TEST_F(LateFor, BatchThePeersReceive) {
  open_channel();
  Buffer memory = buffer();
  static_cast<void>(channel().scope([&](Scope& scope) {
    const std::array works{Send{memory.gather()}, Send{memory.gather()}};
    expect_field(scope.wait(scope.post(works), 0ms), kReceive);
  }));
}

TEST_F(LateFor, WaitAnyThePeersReceive) {
  open_channel();
  Buffer memory = buffer();
  static_cast<void>(channel().scope([&](Scope& scope) {
    const std::array one{scope.post(Send{memory.gather()})};
    expect_field(scope.wait_any(one, 0ms), kReceive);
  }));
}

TEST_F(LateFor, DetachedSendThePeersReceive) {
  open_channel({.timeout = 0ms});
  Buffer memory = buffer();
  const auto outcome =
      channel().scope([&](Scope& scope) { scope.post_detached(Send{memory.gather()}); });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_STREQ(outcome.error().operations.at(0).field, kReceive);
}

TEST_F(LateFor, FinishSendsThePeersReceive) {
  open_channel();
  auto sending = channel().send(buffer());
  expect_field(channel().finish_sends(0ms), kReceive);
}

}  // namespace
}  // namespace verbatim::test
