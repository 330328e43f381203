// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no completion event is lost: neither in a process that can no longer open its own channel,
//       nor in a channel that is full.
// Method: contained children. One loses a right, a descriptor or its root directory, and then
//         finishes a request of its own. Another leaves events of one queue unread until the
//         channel is full; then another queue of that channel has an event.
// Covers: soft/completion_channel.cpp
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "support/few_descriptors.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// A pair whose sends complete in `queue`.
ConnectedPair pair_with(const ProtectionDomain& domain, const CompletionQueue& queue) {
  return {domain, {.local = [&](QueuePairOptions& options) { options.send_completions = queue; }}};
}

void finish_a_send(ConnectedPair& pair) {
  pair.remote.post(Receive{}, 1);
  pair.local.post(Send{}, 1);
  poll_ok(pair.remote.receives);
}

template <class Lose>
void expect_event_after(const Lose& lose) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(30s, [&] {
    const Context context = open_context();
    const CompletionChannel channel = require(context.create_completion_channel());
    const ProtectionDomain domain = require(context.allocate_domain());
    CompletionQueue queue = completion_queue(context, 16, channel);
    ConnectedPair pair = pair_with(domain, queue);
    const auto lost = lose();
    ASSERT_TRUE(static_cast<bool>(lost));
    require(queue.arm());
    finish_a_send(pair);
    EXPECT_TRUE(channel.wait(kPatience).has_value()) << "no event";
    EXPECT_TRUE(queue.take_signal());
    poll_ok(queue);
  });
}

TEST(OwnEvents, ComeAfterTheProcessGaveUpItsRights) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  expect_event_after([] { return setgid(kNobody) == 0 && setuid(kNobody) == 0; });
}

TEST(OwnEvents, ComeAfterChroot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can change its root directory";
  expect_event_after([] { return chroot("/mnt") == 0; });
}

TEST(OwnEvents, ComeWithoutAFreeDescriptor) {
  expect_event_after([] { return std::make_unique<FewDescriptors>(0); });
}

/// A channel with two queues. The one has more events than the channel holds, none of them read.
class FullChannel {
 public:
  FullChannel() {
    for (int i = 0; i < 10'000; ++i) {
      require(many_->arm());
      finish_a_send(*busy_);
      poll_ok(*many_);
    }
  }
  /// Reads the channel until there is an event of the other queue, or nothing for long.
  [[nodiscard]] bool has_event() {
    while (!other.take_signal())
      if (!channel.wait(kPatience)) return false;
    return true;
  }
  void destroy_the_busy_queue() {
    busy_.reset();
    many_.reset();
  }

  Context context = open_context();
  CompletionChannel channel = require(context.create_completion_channel());
  ProtectionDomain domain = require(context.allocate_domain());
  CompletionQueue other = completion_queue(context, 16, channel);

 private:
  std::optional<CompletionQueue> many_ = completion_queue(context, 16, channel);
  std::optional<ConnectedPair> busy_ = pair_with(domain, *many_);
};

TEST(FullChannel, KeepsTheEventOfAnotherQueue) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    FullChannel full;
    ConnectedPair pair = pair_with(full.domain, full.other);
    require(full.other.arm());
    finish_a_send(pair);
    EXPECT_TRUE(full.has_event());
  });
}

TEST(FullChannel, KeepsTheEventWhileTheBusyQueueIsDestroyed) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    FullChannel full;
    ConnectedPair pair = pair_with(full.domain, full.other);
    require(full.other.arm());
    finish_a_send(pair);
    full.destroy_the_busy_queue();
    EXPECT_TRUE(full.has_event());
  });
}

/// Sends one empty message. Link: to the receiver.
int play_single_sender(const std::vector<std::string>&) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  Meeting with = meet(link, queue_pair_options(domain, queue, queue));
  link.barrier();
  require(unsafe::post(with.queue_pair, Send{}, WrId{1}));
  poll_ok(queue);
  link.barrier();
  link.wait_for_end();
  return 0;
}
const Role kSingleSender{"single_sender", &play_single_sender};

TEST(FullChannel, KeepsTheEventThatAPeerCaused) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    const auto [ours, theirs] = socket_pair();
    const Process sender = Process::start({"single_sender"}, {theirs});
    FullChannel full;
    CompletionQueue sends = completion_queue(full.context);
    Link link{ours};
    Meeting with = meet(link, queue_pair_options(full.domain, sends, full.other));
    require(unsafe::post(with.queue_pair, Receive{}, WrId{1}));
    require(full.other.arm());
    link.barrier();
    link.barrier();
    EXPECT_TRUE(full.has_event());
  });
}

}  // namespace
}  // namespace verbatim::test
