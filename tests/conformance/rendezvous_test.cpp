// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two sides that know only an address end up with channels that work; hostile clients get an
//       error and harm nobody; a side that closes early does not break the other.
// Method: two threads, and two processes, over TCP on this host; clients that the test plays
// itself.
// Covers: channel/leave.cpp, channel/rendezvous.cpp
#include "verbatim/channel/rendezvous.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/child_process.hpp"
#include "conformance/rendezvous_peer.hpp"
#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class RendezvousTest : public testing::Test {
 protected:
  [[nodiscard]] Buffer filled(std::size_t bytes, std::uint64_t with) {
    Buffer buffer = require(domain.allocate(bytes));
    fill(buffer.bytes(), with);
    return buffer;
  }
  [[nodiscard]] Buffer empty(std::size_t bytes) { return require(domain.allocate(bytes)); }
  /// Both ends of a meeting: {the listener's, the dialler's}.
  [[nodiscard]] std::pair<Channel, Channel> meet(const ListenOptions& listen = {},
                                                 const DialOptions& dialled = {}) {
    const auto listener = require(Listener::open(domain, "127.0.0.1:0", listen));
    auto dialing =
        std::async(std::launch::async, [&] { return dial(domain, listener.address(), dialled); });
    auto accepted = listener.accept(kPatience);
    auto other = dialing.get();
    return {require(std::move(accepted)), require(std::move(other))};
  }
  void exchange(Channel& from, Channel& to) {
    auto receiving = to.receive(empty(64));
    EXPECT_TRUE(succeeds(from.send(filled(64, seed)).wait().result));
    auto [received, result] = receiving.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(received.bytes(), seed));
  }

  std::uint64_t seed = test_seed();
  ProtectionDomain domain = require(open_context().allocate_domain());
};

/// A client that is none of ours.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      give_up("connect", Where::current());
  }
  void say(std::span<const std::byte> bytes) const {
    // The listener may have hung up already: that is its right.
    static_cast<void>(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void say(std::string_view text) const { say(std::as_bytes(std::span{text})); }
  void hang_up() { fd_ = detail::FileDescriptor{}; }

 private:
  detail::FileDescriptor fd_;
};

TEST_F(RendezvousTest, GivesTwoChannelsThatTalkBothWays) {
  auto [left, right] = meet();
  for (int i = 0; i < 20; ++i) {
    exchange(left, right);
    exchange(right, left);
  }
}

TEST_F(RendezvousTest, ListenerServesOneClientAfterTheOther) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  EXPECT_NE(listener.port(), 0);
  EXPECT_EQ(listener.address(), "127.0.0.1:" + std::to_string(listener.port()));
  for (int i = 0; i < 3; ++i) {
    auto dialing = std::async(std::launch::async, [&] { return dial(domain, listener.address()); });
    Channel here = require(listener.accept(kPatience));
    Channel there = require(dialing.get());
    exchange(there, here);
  }
}

TEST_F(RendezvousTest, SeveralThreadsMayAcceptAtOnce) {
  constexpr std::size_t kCount = 4;
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  std::vector<std::future<Result<void>>> sides;
  const auto start = [&](auto side) {
    sides.push_back(std::async(std::launch::async, [side]() -> Result<void> {
      auto channel = side();
      if (!channel) return std::unexpected(channel.error());
      return channel->close(kPatience);  // Each waits for its own peer.
    }));
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    start([&] { return listener.accept(kPatience); });
    start([&] { return dial(domain, listener.address(), {.deadline = kPatience}); });
  }
  for (auto& each : sides) EXPECT_TRUE(succeeds(each.get()));
}

TEST_F(RendezvousTest, WorksByNameAndOverIpv6) {
  for (const std::string host : {"localhost", "[::1]"}) {
    const auto listener = Listener::open(domain, host + ":0");
    if (!listener && host == "[::1]") GTEST_SKIP() << "no IPv6 here";
    ASSERT_TRUE(succeeds(listener));
    auto dialing = std::async(std::launch::async, [&] {
      return dial(domain, host + ":" + std::to_string(listener->port()));
    });
    Channel here = require(listener->accept(kPatience));
    Channel there = require(dialing.get());
    exchange(there, here);
  }
}

TEST_F(RendezvousTest, PreparedReceivesAreThereForTheFirstMessage) {
  std::optional<Pending<Buffer>> receiving;
  ListenOptions options;
  // No retry when the peer has no receive: only one that was posted before helps.
  options.channel.max_rnr_retries = require(MaxRnrRetries::limited(0));
  DialOptions dialled{.channel = options.channel};
  options.prepare = [&](PreparedChannel& prepared) -> Result<void> {
    receiving.emplace(prepared.receive(empty(64)));
    return {};
  };
  auto [here, there] = meet(options, dialled);
  EXPECT_TRUE(succeeds(there.send(filled(64, seed)).wait().result));
  auto [received, result] = receiving->wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
}

TEST_F(RendezvousTest, PrepareMayRefuse) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  std::optional<Pending<Buffer>> receiving;
  const auto refused =
      dial(domain, listener.address(), {.prepare = [&](PreparedChannel& prepared) -> Result<void> {
             receiving.emplace(prepared.receive(empty(64)));
             return std::unexpected(Error{.code = Errc::permission_denied, .operation = "mine"});
           }});
  ASSERT_TRUE(fails_with(refused, Errc::permission_denied));
  auto [buffer, result] = receiving->wait();
  EXPECT_TRUE(buffer);
  EXPECT_TRUE(fails_with(result, Errc::closed));
  // The listener saw a client that left.
  const auto gone = listener.accept(kPatience);
  ASSERT_TRUE(fails_with(gone, Errc::closed));
  EXPECT_STREQ(gone.error().field, "the peer's endpoint");
}

TEST_F(RendezvousTest, NobodyThereIsTimedOut) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  const auto nobody = listener.accept(20ms);
  ASSERT_TRUE(fails_with(nobody, Errc::timed_out));
  EXPECT_STREQ(nobody.error().field, "connection");
  // Somebody listens, but does not accept.
  const auto silent = dial(domain, listener.address(), {.deadline = 50ms});
  ASSERT_TRUE(fails_with(silent, Errc::timed_out));
  EXPECT_STREQ(silent.error().field, "the peer's endpoint");
}

TEST_F(RendezvousTest, BadAddressesAreRefusedByName) {
  EXPECT_TRUE(fails_with(Listener::open(domain, "nonsense"), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(dial(domain, "127.0.0.1:0"), Errc::invalid_argument));
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  EXPECT_TRUE(fails_with(Listener::open(domain, listener.address()), Errc::busy));
}

TEST_F(RendezvousTest, BadClientsGetAnErrorAndTheListenerGoesOn) {
  const auto listener =
      require(Listener::open(domain, "127.0.0.1:0", {.handshake_timeout = 100ms}));
  const auto expect_error = [&](Errc code, std::string_view field, std::string_view said) {
    Stranger stranger{listener.port()};
    if (!said.empty()) stranger.say(said);
    if (code == Errc::closed) stranger.hang_up();
    const auto accepted = listener.accept(kPatience);
    ASSERT_TRUE(fails_with(accepted, code)) << field;
    EXPECT_EQ(accepted.error().field, field);
  };
  expect_error(Errc::malformed, "frame magic", "GET / HTTP/1.1\r\n\r\n");
  expect_error(Errc::malformed, "frame length", {"VBF1\x01\0\xff\xff", 8});
  expect_error(Errc::malformed, "frame kind", {"VBF1\x03\0\0\0", 8});
  expect_error(Errc::malformed, "magic", {"VBF1\x01\0\x04\0junk", 12});
  expect_error(Errc::closed, "the peer's endpoint", "");
  expect_error(Errc::closed, "the peer's endpoint", "VBF1");
  expect_error(Errc::timed_out, "the peer's endpoint", "");  // It holds the line, and is silent.
  expect_error(Errc::timed_out, "the peer's endpoint", {"VBF1\x01\0\x04\0ju", 10});

  auto dialing = std::async(std::launch::async, [&] { return dial(domain, listener.address()); });
  Channel here = require(listener.accept(kPatience));
  Channel there = require(dialing.get());
  exchange(there, here);
}

TEST_F(RendezvousTest, ClientThatConnectsAndNeverGetsReadyIsAnError) {
  const auto listener =
      require(Listener::open(domain, "127.0.0.1:0", {.handshake_timeout = 100ms}));
  const auto prepared = require(PreparedChannel::create(domain));
  const auto endpoint = encode(prepared.endpoint());
  std::vector<std::byte> frame{std::byte{'V'},
                               std::byte{'B'},
                               std::byte{'F'},
                               std::byte{'1'},
                               std::byte{1},
                               std::byte{},
                               {},
                               {}};
  frame[6] = static_cast<std::byte>(endpoint.size());
  frame.insert(frame.end(), endpoint.begin(), endpoint.end());
  {
    const Stranger stranger{listener.port()};
    stranger.say(frame);
    const auto accepted = listener.accept(kPatience);
    ASSERT_TRUE(fails_with(accepted, Errc::timed_out));
    EXPECT_STREQ(accepted.error().field, "the peer's ready record");
  }
  // A ready record of another connection.
  const ReadyRecord foreign = [&] {
    auto [a, b] = require(connect_pair(domain));
    return a.ready_record();
  }();
  for (const char byte : std::string_view{"VBF1\x02\0\x18\0", 8})
    frame.push_back(static_cast<std::byte>(byte));
  frame.insert(frame.end(), foreign.begin(), foreign.end());
  const Stranger stranger{listener.port()};
  stranger.say(frame);
  const auto accepted = listener.accept(kPatience);
  ASSERT_TRUE(fails_with(accepted, Errc::incompatible));
  EXPECT_STREQ(accepted.error().field, "nonce");
}

TEST_F(RendezvousTest, RandomClientsNeverGetAChannel) {
  const auto listener =
      require(Listener::open(domain, "127.0.0.1:0", {.handshake_timeout = 200ms}));
  std::mt19937_64 random{seed};
  for (int round = 0; round < 40; ++round) {
    Stranger stranger{listener.port()};
    std::vector<std::byte> bytes(random() % 300);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    const std::string_view start{"VBF1\x01\0", 6};
    if (random() % 2 == 0 && bytes.size() >= 8)
      for (std::size_t i = 0; i < start.size(); ++i) bytes[i] = static_cast<std::byte>(start[i]);
    stranger.say(bytes);
    stranger.hang_up();
    const auto accepted = listener.accept(kPatience);
    ASSERT_FALSE(accepted.has_value()) << "round " << round;
    EXPECT_STRNE(accepted.error().field, "") << to_string(accepted.error());
  }
}

TEST_F(RendezvousTest, ReadyRecordConfirmsTheRightPeerOnly) {
  auto [left, right] = require(connect_pair(domain));
  EXPECT_TRUE(succeeds(left.confirm(right.ready_record())));
  EXPECT_TRUE(succeeds(right.confirm(left.ready_record())));
  EXPECT_TRUE(fails_with(left.confirm(left.ready_record()), Errc::incompatible));
  auto [other, unused] = require(connect_pair(domain));
  EXPECT_TRUE(fails_with(left.confirm(other.ready_record()), Errc::incompatible));
  EXPECT_TRUE(fails_with(left.confirm({}), Errc::malformed));
  exchange(left, right);
}

TEST_F(RendezvousTest, CloseWaitsForAPeerThatStillSends) {
  auto [fast, slow] = meet();
  std::vector<Pending<Buffer>> receiving;
  for (int i = 0; i < 4; ++i) receiving.push_back(fast.receive(empty(64)));
  auto closing = std::async(std::launch::async, [&] { return fast.close(kPatience); });
  // Without the exchange of "done" it would be over by now, and what follows would fail.
  EXPECT_EQ(closing.wait_for(100ms), std::future_status::timeout);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(succeeds(slow.send(filled(64, seed)).wait().result)) << i;
  EXPECT_TRUE(succeeds(slow.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
  for (auto& each : receiving) {
    auto [received, result] = each.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(received.bytes(), seed));
  }
}

TEST_F(RendezvousTest, CloseOfASenderLeavesTheReceiverItsMessages) {
  auto [fast, slow] = meet();
  std::vector<Pending<Buffer>> sending;
  for (std::uint64_t i = 0; i < 4; ++i) sending.push_back(fast.send(filled(64, seed + i)));
  auto closing = std::async(std::launch::async, [&] { return fast.close(kPatience); });
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto [received, result] = slow.receive(empty(64)).wait();
    ASSERT_TRUE(succeeds(result)) << i;
    EXPECT_TRUE(holds(received.bytes(), seed + i));
  }
  EXPECT_TRUE(succeeds(slow.close(kPatience)));
  EXPECT_TRUE(succeeds(closing.get()));
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(RendezvousTest, CloseGivesUpOnAPeerThatGoesOn) {
  auto [fast, slow] = meet();
  const auto late = fast.close(30ms);
  ASSERT_TRUE(fails_with(late, Errc::timed_out));
  EXPECT_STREQ(late.error().field, "the peer's done");
  EXPECT_EQ(fast.cause()->code, Errc::closed);
  EXPECT_TRUE(succeeds(slow.close(kPatience)));  // Whose peer is gone: that counts as done.
}

TEST_F(RendezvousTest, CloseDoesNotWaitForAPeerThatIsGone) {
  auto [left, right] = meet();
  auto untaken = right.receive(empty(64));  // Its result keeps the state, but not the connection.
  {
    const Channel gone = std::move(right);
  }
  const auto start = Clock::now();
  EXPECT_TRUE(succeeds(left.close(kPatience)));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
  EXPECT_TRUE(fails_with(untaken.wait().result, Errc::closed));
}

TEST_F(RendezvousTest, CancelEndsACloseThatWaits) {
  auto [left, right] = meet();
  const Canceller canceller = left.canceller();
  auto closing = std::async(std::launch::async, [&] { return left.close(kPatience); });
  EXPECT_EQ(closing.wait_for(20ms), std::future_status::timeout);
  canceller.cancel();
  EXPECT_TRUE(fails_with(closing.get(), Errc::cancelled));
}

TEST_F(RendezvousTest, ChannelsOfTheirOwnCarrierPartTheSameWay) {
  auto [fast, slow] = require(connect_pair(domain));
  auto receiving = fast.receive(empty(64));
  auto blocked = slow.send(filled(64, seed));
  EXPECT_TRUE(succeeds(fast.finish_sends()));
  EXPECT_TRUE(succeeds(slow.finish_sends()));
  EXPECT_TRUE(succeeds(blocked.wait().result));
  EXPECT_TRUE(succeeds(receiving.wait().result));
  // Nobody receives this: the time is over, but the channel lives.
  auto unwanted = fast.send(filled(64, seed));
  EXPECT_TRUE(fails_with(fast.finish_sends(10ms), Errc::timed_out));
  EXPECT_FALSE(fast.cause());
  EXPECT_TRUE(succeeds(slow.receive(empty(64)).wait().result));
  EXPECT_TRUE(succeeds(unwanted.wait().result));
}

TEST_F(RendezvousTest, RecycledChannelHasNoConnectionAnyMore) {
  auto [left, right] = meet();
  left.cancel();
  right.cancel();
  static_cast<void>(left.poll());
  static_cast<void>(right.poll());
  auto first = require(std::move(left).recycle());
  auto second = require(std::move(right).recycle());
  const Endpoint a = first.endpoint();
  const Endpoint b = second.endpoint();
  Channel again = require(std::move(first).connect(b));
  Channel other = require(std::move(second).connect(a));
  exchange(again, other);
  EXPECT_TRUE(succeeds(again.close(kPatience)));  // One thread: nobody waits for anybody.
  EXPECT_TRUE(succeeds(other.close(kPatience)));
}

TEST_F(RendezvousTest, TwoProcessesTalkAndPart) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  Child child = start_child({"dialler", listener.address()});
  Channel channel = require(listener.accept(kPatience));
  serve_echo(domain, channel);
  EXPECT_TRUE(succeeds(channel.close(kPatience)));
  const ChildResult result = run_to_end(std::move(child));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(RendezvousTest, CloseDoesNotWaitForAProcessThatWasKilled) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  Child child = start_child({"dialler", listener.address()});
  Channel channel = require(listener.accept(kPatience));
  child.kill();
  const auto start = Clock::now();
  EXPECT_TRUE(succeeds(channel.close(kPatience)));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

}  // namespace
}  // namespace verbatim::test
