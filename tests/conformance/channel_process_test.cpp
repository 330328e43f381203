// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel to a process that is killed returns every buffer, with an error, in bounded time,
//       and can be connected to a new process.
// Method: a child that streams both ways is killed with SIGKILL while messages are on their way;
//         the survivor recycles its channel and meets a second child, three times.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "conformance/channel_peer.hpp"
#include "conformance/child_process.hpp"
#include "support/pattern.hpp"
#include "support/soft_faults.hpp"

namespace verbatim::test {

using namespace std::chrono_literals;

ChannelOptions peer_options() {
  return {.timeout = 10s,
          .flush_timeout = 1s,
          .ack_timeout = require(AckTimeout::at_least(30ms)),
          .max_ack_retries = require(MaxAckRetries::limited(3))};
}

Channel join_channel(Link& link, PreparedChannel prepared) {
  link.send(encode(prepared.endpoint()));
  const Endpoint peer = require(decode_endpoint(link.receive()));
  Channel channel = require(std::move(prepared).connect(peer));
  link.barrier();  // From here on both can receive.
  return channel;
}

namespace {

constexpr std::size_t kInFlight = 8;

/// For messages to a peer that lives, which must not end because it is held up for a while. The
/// software device sees at once that a process has died, however long the timers are.
ChannelOptions streaming_options() {
  ChannelOptions options = peer_options();
  if (on_soft_device()) options.ack_timeout = require(AckTimeout::at_least(1s));
  return options;
}

/// Streams messages both ways, as many as fit. Stops at the first failure.
class Stream {
 public:
  Stream(Channel& channel, const ProtectionDomain& domain) : channel_(channel) {
    for (std::size_t i = 0; i < kInFlight; ++i) {
      receiving_.push_back(channel_.receive(require(domain.allocate(kPeerMessage))));
      sending_.push_back(channel_.send(require(domain.allocate(kPeerMessage))));
    }
  }
  /// One message each way. Returns false if it failed.
  [[nodiscard]] bool step() {
    return turn(receiving_, [&](Buffer b) { return channel_.receive(std::move(b)); }) &&
           turn(sending_, [&](Buffer b) { return channel_.send(std::move(b)); });
  }
  /// Takes every result. Returns how many operations there were, and how many buffers came back.
  [[nodiscard]] std::pair<std::size_t, std::size_t> end() {
    std::pair<std::size_t, std::size_t> counts{0, 0};
    for (auto* queue : {&receiving_, &sending_})
      for (auto& each : *queue) {
        ++counts.first;
        if (each.wait().buffer) ++counts.second;
      }
    receiving_.clear();
    sending_.clear();
    return counts;
  }

 private:
  template <class Post>
  [[nodiscard]] static bool turn(std::deque<Pending<Buffer>>& queue, Post post) {
    auto [buffer, result] = queue.front().wait();
    EXPECT_TRUE(buffer);
    queue.pop_front();
    queue.push_back(post(std::move(buffer)));
    return result.has_value();
  }

  Channel& channel_;
  std::deque<Pending<Buffer>> receiving_;
  std::deque<Pending<Buffer>> sending_;
};

TEST(ChannelProcesses, SurvivorOfAKilledPeerConnectsToTheNext) {
  const std::uint64_t seed = test_seed();
  const ProtectionDomain domain = require(open_context().allocate_domain());
  auto prepared = require(PreparedChannel::create(domain, streaming_options()));
  LinkListener listener;
  for (std::uint64_t round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Child doomed = start_child({"channel_peer", std::to_string(listener.port()), "stream"});
    Link link = listener.accept();
    Channel channel = join_channel(link, std::move(prepared));
    Stream stream{channel, domain};
    for (std::size_t i = 0; i < 20 * (round + 1); ++i) ASSERT_TRUE(stream.step()) << i;

    doomed.kill();
    const auto start = std::chrono::steady_clock::now();
    while (stream.step()) {
    }
    const auto [operations, buffers] = stream.end();
    EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience);
    EXPECT_EQ(operations, 2 * kInFlight);
    EXPECT_EQ(buffers, operations);
    ASSERT_TRUE(channel.cause());
    EXPECT_TRUE(channel.cause()->code == Errc::work_failed ||
                channel.cause()->code == Errc::timed_out)
        << to_string(*channel.cause());

    Child next = start_child({"channel_peer", std::to_string(listener.port()), "answer"});
    Link second = listener.accept();
    Channel again = join_channel(second, require(std::move(channel).recycle()));
    Buffer message = require(domain.allocate(kPeerMessage));
    fill(message.bytes(), seed + round);
    auto answer = again.receive(require(domain.allocate(kPeerMessage)));
    second.barrier();  // Both have a receive.
    EXPECT_TRUE(succeeds(again.send(std::move(message)).wait().result));
    auto [received, result] = answer.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(received.bytes(), seed + round));
    second.barrier();
    const ChildResult ended = run_to_end(std::move(next));
    EXPECT_EQ(ended.status, 0) << ended.output;
    again.cancel();
    prepared = require(std::move(again).recycle());
  }
}

}  // namespace

int play_channel_peer(std::uint16_t port, const std::string& part) {
  Link link = Link::connect(port);
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Channel channel =
      join_channel(link, require(PreparedChannel::create(domain, streaming_options())));
  if (part == "stream") {
    Stream stream{channel, domain};
    while (stream.step()) {
    }
    return 1;  // It should have been killed before.
  }
  if (part == "idle")
    for (;;) pause();
  auto receiving = channel.receive(require(domain.allocate(kPeerMessage)));
  link.barrier();
  auto [message, result] = receiving.wait();
  require(std::move(result));
  require(channel.send(std::move(message)).wait().result);
  link.barrier();
  return 0;
}

}  // namespace verbatim::test
