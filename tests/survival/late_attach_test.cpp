// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair that was connected while its process had no descriptor to attach the peer
//       works as soon as there is one; and a thread is not cancelled in the post that attaches.
// Method: a process that connects without a free descriptor, and then writes to the peer, sends to
//         a queue of the peer that waits for an event, and reaches all kinds of its memory.
// Covers: soft/route.cpp
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <thread>

#include "support/few_descriptors.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSharedBytes = 64 << 10;

/// Receives a message through a completion channel. Argument: the kind of memory that it shares.
/// Link: to the sender.
int play_listener(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const CompletionChannel channel = require(domain.context().create_completion_channel());
  CompletionQueue receives = completion_queue(domain.context(), 64, channel);
  static std::array<std::byte, kSharedBytes> plain;
  const SharedRegion shared =
      role.at(1) == "plain" ? require(domain.register_shared(plain, Access::remote_write))
                            : require(domain.allocate_shared(kSharedBytes, Access::remote_write));
  Meeting with = meet(link, queue_pair_options(domain, receives, receives), shared.remote());
  require(unsafe::post(with.queue_pair, Receive{}, WrId{1}));
  require(receives.arm());
  link.barrier();
  static_cast<void>(require(channel.wait(20s)));
  poll_ok(receives);
  link.wait_for_end();
  return 0;
}
const Role kListener{"listener", &play_listener};

/// Connected to a listener without a descriptor to attach it.
class Unattached {
 public:
  explicit Unattached(const char* memory)
      : listener_(Process::start({"listener", memory}, {ends_.second})), with_(connect()) {
    link_.barrier();
  }
  void use() {
    for (const std::size_t bytes : {std::size_t{8}, kSharedBytes}) {
      require(unsafe::post(
          with_.queue_pair,
          Write{source_.gather(0, bytes), with_.peer_memory.sub_region(0, bytes).value()},
          WrId{1}));
      poll_ok(queue_);
    }
    require(unsafe::post(with_.queue_pair, Send{}, WrId{2}));
    poll_ok(queue_);
  }

 private:
  Meeting connect() {
    QueuePairOptions options = queue_pair_options(domain_, queue_, queue_);
    options.ack_timeout = require(AckTimeout::at_least(500ms));
    options.max_ack_retries = require(MaxAckRetries::limited(7));
    auto prepared = require(QueuePair::prepare(options));
    link_.send(encode(prepared.endpoint()));
    const Endpoint peer = require(decode_endpoint(link_.receive()));
    link_.send(encode(RemoteMemoryRegion{}));
    const auto memory = require(decode_remote_memory(link_.receive()));
    const FewDescriptors none{0};
    QueuePair queue_pair = require(std::move(prepared).connect(peer));
    link_.barrier();
    return {std::move(queue_pair), memory};
  }

  std::pair<int, int> ends_ = socket_pair();
  Process listener_;
  Link link_{ends_.first};
  ProtectionDomain domain_ = require(open_context().allocate_domain());
  CompletionQueue queue_ = completion_queue(domain_.context());
  Buffer source_ = require(domain_.allocate(kSharedBytes));
  Meeting with_;
};

TEST(LateAttach, QueuePairWorksOnceThereIsADescriptor) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] { Unattached{"buffer"}.use(); });
}

class CancelledPost : public testing::TestWithParam<const char*> {};

TEST_P(CancelledPost, IsNotInterrupted) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    Unattached peer{GetParam()};
    bool finished = false;
    std::thread{[&] {
      pthread_cancel(pthread_self());  // Takes effect at the next cancellation point.
      peer.use();
      finished = true;
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    }}.join();
    EXPECT_TRUE(finished);
  });
}

INSTANTIATE_TEST_SUITE_P(Memory, CancelledPost, testing::Values("buffer", "plain"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace verbatim::test
