// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a sender that is killed before it tells the receiver what its message means takes nobody's
//       event with it: neither that of the completion queue, on which the receiver sleeps, nor that
//       of the shared queue, which says that receives run out.
// Method: a client sends one message in single steps, and is killed at the first change of the word
//         that says who tells. Nobody sends to the sleeper again; another client takes one more
//         receive.
// Covers: soft/shared_ring.cpp, soft/deliver.cpp
#include <gtest/gtest.h>

#include <optional>

#include "soft/completer/completion_queue.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/responder/receive_ring.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "survival/single_steps.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kAllSteps = 1'000'000;

/// Sends two messages, the second one in single steps. Link: to the receiver.
int play_teller(const std::vector<std::string>&) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  Meeting with = meet(link, queue_pair_options(domain, queue, queue));
  const Buffer source = require(domain.allocate(64));
  require(unsafe::post(with.queue_pair, Send{source.gather()}, WrId{1}));
  poll_ok(queue);
  link.barrier();
  let_steps_begin();
  require(unsafe::post(with.queue_pair, Send{source.gather()}, WrId{2}));
  let_steps_end();
  return 0;
}
const Role kTeller{"teller", &play_teller};

/// Steps the process until the condition holds. False: the call ended before.
template <class Condition>
bool step_until(pid_t process, const Condition& condition) {
  for (unsigned taken = 0; taken < kAllSteps && !condition(); ++taken)
    if (step(process, 1) != 1) return false;
  return condition();
}

/// A receiver with a shared queue, and clients that send to it.
class Receiver {
 public:
  static constexpr std::uint32_t kReceives = 16;

  Receiver() {
    for (std::uint64_t id = 0; id < kReceives; ++id) post();
  }
  struct Client {
    Process process;
    Link link;
    Meeting with;
  };
  /// A client that has sent one message, which was taken, and is about to send the next one.
  [[nodiscard]] Client start() {
    const auto [here, there] = socket_pair();
    Process process = Process::start({"teller"}, {there});
    Link link{here};
    QueuePairOptions options = queue_pair_options(domain, queue, queue);
    options.shared_receive_queue = shared;
    options.max_receive_requests = {};
    Meeting with = meet(link, options);
    poll_ok(queue);
    post();
    link.barrier();
    if (!wait_for_steps(process.pid())) cannot("tracing a child");
    return {std::move(process), std::move(link), std::move(with)};
  }
  void post() { require(unsafe::post(shared, Receive{sink.scatter()}, WrId{1})); }
  [[nodiscard]] std::uint32_t armed() { return shared_queue().armed.load(); }
  /// The number of the next completion.
  [[nodiscard]] std::uint32_t tail() { return engine::current_line(shared_queue()).tail.load(); }
  /// Whether a completion has come that was not polled.
  [[nodiscard]] bool has_completion() {
    const auto& own = engine::CompletionQueue::of(unsafe::native(queue));
    const std::uint32_t next = own.shared_head.load();
    return own.entries.load()[next & (own.capacity - 1)].sequence.load() == next + 1;
  }
  [[nodiscard]] engine::SharedReceives& receives() {
    return *reinterpret_cast<engine::SharedReceiveQueue*>(unsafe::native(shared))->receives.shared;
  }

  [[nodiscard]] engine::SharedCompletionQueue& shared_queue() {
    return *engine::CompletionQueue::of(unsafe::native(queue)).shared;
  }

  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  CompletionChannel channel = require(context.create_completion_channel());
  CompletionQueue queue = completion_queue(context, 64, channel);
  SharedReceiveQueue shared =
      require(domain.create_shared_receive_queue({.max_requests = kReceives}));
  Buffer sink = require(domain.allocate(64));
};

/// Kills a client at the instruction after which the condition holds.
template <class Condition>
void expect_event(const Condition& condition) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck, [&] {
    Receiver receiver;
    Receiver::Client client = receiver.start();
    require(receiver.queue.arm());
    ASSERT_TRUE(step_until(client.process.pid(), [&] { return condition(receiver); }));
    client.process.kill();
    EXPECT_TRUE(receiver.channel.wait(kPatience).has_value()) << "the owner sleeps for ever";
    poll_ok(receiver.queue);
  });
}

TEST(KilledTeller, OfACompletionTakesNoEventAlong) {
  expect_event([](Receiver& receiver) { return receiver.armed() != engine::Armed::any; });
}

// It has not looked yet whether the queue is armed.
TEST(KilledTeller, ThatLeftOnlyItsCompletionTakesNoEventAlong) {
  std::optional<std::uint32_t> before;
  expect_event([&before](Receiver& receiver) {
    const std::uint32_t tail = receiver.tail();
    if (!before) before = tail;
    // Once the completion is there, the owner's helper tells if the client stands still for long.
    const std::uint32_t armed = receiver.armed();
    EXPECT_TRUE(armed == engine::Armed::any || receiver.has_completion()) << armed;
    return tail != *before;
  });
}

TEST(KilledTeller, OfALimitTakesNoEventAlong) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck, [] {
    Receiver receiver;
    Receiver::Client killed = receiver.start();
    Receiver::Client other = receiver.start();
    require(receiver.shared.arm_limit(Receiver::kReceives));
    engine::SharedReceives& receives = receiver.receives();
    const std::uint64_t armed = receives.limit.load();
    ASSERT_TRUE(step_until(killed.process.pid(), [&] {
      return receives.limit.load() != armed || receives.limit_reached.load() != 0;
    }));
    killed.process.kill();
    run_to_end_of_steps(other.process.pid());
    EXPECT_TRUE(eventually([&] {
      require(receiver.context.dispatch_events());
      return receiver.shared.events().has(EventType::shared_receive_queue_limit_reached);
    })) << "the owner does not hear that receives run out";
  });
}

}  // namespace
}  // namespace verbatim::test
