// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that serves many others for a long time is not larger after the hundredth than
//       after the tenth: descriptors, mappings, address space and memory go with the peer, and with
//       each window that a live peer has freed.
// Method: what /proc reports about this process, before and after; clients that exit and clients
//         that are killed, each with 4 MiB that we wrote to, each woken from a sleep.
// Covers: soft/reclaim.cpp
#include <gtest/gtest.h>

#include "support/pattern.hpp"
#include "survival/contained.hpp"
#include "survival/holdings.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kWindow = 4 << 20;

/// Whether this process becomes as before. What is not released at once is released within seconds,
/// or never.
testing::AssertionResult is_like_again(const Holdings& before, CompletionQueue& queue) {
  const auto is_like = [&] {
    std::array<Completion, 1> none;
    static_cast<void>(queue.poll(none));  // As a server does.
    return Holdings::now().is_like(before);
  };
  if (eventually(is_like)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << Holdings::now() << "; it was " << before;
}

/// Shares one window, sleeps for one message, and ends: by itself, or killed. Arguments: exit or
/// wait. Link: to the server.
int play_visitor(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const auto channel = require(domain.context().create_completion_channel());
  CompletionQueue queue = completion_queue(domain.context(), 64, channel);
  SharedRegion window = require(domain.allocate_shared(kWindow, Access::remote_write));
  Meeting with = meet(link, queue_pair_options(domain, queue, queue), window.remote());
  Buffer sink = require(domain.allocate(64));
  require(unsafe::post(with.queue_pair, Receive{sink.scatter()}, WrId{1}));
  require(queue.arm());
  link.barrier();
  std::array<Completion, 1> found;
  if (require(queue.wait(found, kPatience)) != 1 || !found[0].ok()) return 1;
  if (!holds(window.quiescent_bytes(), 5)) return 1;
  if (role.at(1) == "exit") return 0;
  link.barrier();
  link.wait_for_end();
  return 0;
}
const Role kVisitor{"visitor", &play_visitor};

class Server {
 public:
  Server() { fill(source.bytes(), 5); }
  /// One client comes and goes.
  void serve(bool is_killed) {
    EXPECT_FALSE(poll_within(queue, 0s)) << "an empty queue has room for the next one";
    const auto [here, there] = socket_pair();
    Process visitor = Process::start({"visitor", is_killed ? "wait" : "exit"}, {there});
    Link link{here};
    Meeting with = meet(link, queue_pair_options(domain, queue, queue));
    link.barrier();
    require(unsafe::post(with.queue_pair, Write{source.gather(), with.peer_memory}, WrId{1}));
    require(unsafe::post(with.queue_pair, Send{source.gather(0, 8)}, WrId{2}));
    poll_ok(queue);
    poll_ok(queue);
    if (!is_killed) {
      EXPECT_EQ(visitor.wait_for_end(), 0);
      return;
    }
    link.barrier();
    visitor.kill();
  }

  ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context(), 64);
  Buffer source = require(domain.allocate(kWindow));
};

TEST(LongLivedProcess, KeepsNothingOfClientsThatCameAndWent) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s * stress_factor(), [] {
    Server server;
    for (int i = 0; i < 10; ++i) server.serve(i % 2 == 1);
    const Holdings early = Holdings::now();
    for (unsigned i = 0; i < 40 * stress_factor(); ++i) server.serve(i % 2 == 1);
    EXPECT_TRUE(is_like_again(early, server.queue));
  });
}

/// Windows, one after the other: announced, written by the peer, freed. Arguments: how many. Link:
/// to the writer.
int play_landlord(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context(), 64);
  const Meeting with = meet(link, queue_pair_options(domain, queue, queue));
  for (int left = std::stoi(role.at(1)); left > 0; --left) {
    SharedRegion window = require(domain.allocate_shared(kWindow, Access::remote_write));
    link.send(encode(window.remote()));
    link.barrier();
    if (!holds(window.quiescent_bytes(), 5)) return 1;
  }
  link.barrier();
  link.wait_for_end();
  return 0;
}
const Role kLandlord{"landlord", &play_landlord};

TEST(LongLivedProcess, KeepsNoWindowThatALivingPeerFreed) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s * stress_factor(), [] {
    const unsigned windows = 40 * stress_factor();
    Server server;
    const auto [here, there] = socket_pair();
    const Process landlord = Process::start({"landlord", std::to_string(windows)}, {there});
    Link link{here};
    Meeting with = meet(link, queue_pair_options(server.domain, server.queue, server.queue));
    const Holdings early = Holdings::now();
    for (unsigned i = 0; i < windows; ++i) {
      const RemoteMemoryRegion window = require(decode_remote_memory(link.receive()));
      require(unsafe::post(with.queue_pair, Write{server.source.gather(), window}, WrId{i}));
      poll_ok(server.queue);
      link.barrier();
    }
    link.barrier();
    EXPECT_TRUE(is_like_again(early, server.queue));
  });
}

TEST(LongLivedProcess, KeepsNoDescriptorOfAChannelThatWasSleptOn) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    const ProtectionDomain domain = require(open_context().allocate_domain());
    const auto wake_one = [&domain] {
      ConnectedPair pair{domain, {.channels = true}};
      require(pair.remote.receives.arm());
      pair.remote.post(Receive{}, 1);
      pair.local.post(send_immediate(1), 2);
      std::array<Completion, 1> found;
      ASSERT_EQ(require(pair.remote.receives.wait(found, kPatience)), 1u);
      require(pair.local.sends.arm());
      poll_ok(pair.local.sends);
    };
    for (int i = 0; i < 10; ++i) wake_one();
    const Holdings early = Holdings::now();
    for (int i = 0; i < 50; ++i) wake_one();
    CompletionQueue queue = completion_queue(domain.context());
    EXPECT_TRUE(is_like_again(early, queue));
  });
}

}  // namespace
}  // namespace verbatim::test
