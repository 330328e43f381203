// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two processes that share nothing but a network talk to each other, and one notices when the
//       other dies; a forked child disturbs nobody.
// Method: a real second program that meets us over TCP; SIGKILL; fork().
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "conformance/child_process.hpp"
#include "conformance/peer_session.hpp"
#include "support/connected_pair.hpp"
#include "support/pattern.hpp"

namespace verbatim::test {
namespace {

TEST(Processes, MoveVerifiedDataBothWays) {
  LinkListener listener;
  Child child = start_child({"peer", std::to_string(listener.port()), "converse"});
  Link link = listener.accept();
  Session session = join(link);
  converse(session, link, 0);
  const ChildResult result = run_to_end(std::move(child));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(Processes, NoticeAPeerThatWasKilled) {
  LinkListener listener;
  Child child = start_child({"peer", std::to_string(listener.port()), "idle"});
  Link link = listener.accept();
  Session session = join(link, kSoonDead);
  Buffer buffer = require(session.domain.allocate(100));
  session.side.post(Receive{buffer.scatter()}, 7);
  child.kill();
  session.side.post(Send{buffer.gather()}, 1);
  const Completion lost = poll_one(session.side.sends);
  EXPECT_EQ(lost.status(), WorkStatus::retry_exceeded);
  EXPECT_EQ(lost.id(), WrId{1});
  // The survivor's queue pair is broken, so what it waits for comes back too.
  EXPECT_TRUE(flushed_in_order({poll_one(session.side.receives)}, 7));
  EXPECT_EQ(require(session.side.queue_pair.query_state()), QueuePairState::error);
}

/// What the child of a fork saw: one bit per broken promise.
unsigned look_around(std::optional<ConnectedPair>& pair, std::optional<Buffer>& buffer,
                     const void* memory) {
  unsigned broken = 0;
  auto expect_forked = [&broken, bit = 0](const auto& result) mutable {
    if (result || !(result.error() == Errc::forked)) broken |= 1u << bit;
    ++bit;
  };
  expect_forked(pair->context.query_port(1));
  expect_forked(pair->domain.allocate(100));
  expect_forked(pair->context.create_completion_queue({.depth = 16}));
  expect_forked(pair->local.queue_pair.query_state());
  std::array<Completion, 1> found;
  expect_forked(pair->local.sends.poll(found));
  expect_forked(unsafe::post(pair->local.queue_pair, send_immediate(1), WrId{1}));
  expect_forked(unsafe::post(pair->local.queue_pair, Receive{}, WrId{1}));
  // Bit 7: the memory of a Buffer was inherited.
  unsigned char resident = 0;
  if (mincore(const_cast<void*>(memory), 1, &resident) == 0 || errno != ENOMEM) broken |= 1u << 7;
  buffer.reset();
  pair.reset();
  return broken;
}

TEST(Fork, LeavesTheParentAloneAndTellsTheChild) {
  std::optional<ConnectedPair> pair(std::in_place);
  std::optional<Buffer> buffer = require(pair->domain.allocate(100));
  const void* const memory = buffer->bytes().data();
  exchange(*pair);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(static_cast<int>(look_around(pair, buffer, memory)));

  exchange(*pair);  // While the child is there, perhaps in its destructors.
  int status = 0;
  const bool ended = eventually([&] { return waitpid(child, &status, WNOHANG) == child; });
  if (!ended) kill(child, SIGKILL);
  ASSERT_TRUE(ended);
  ASSERT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "one bit for each promise broken in the child";
  exchange(*pair);
  ASSERT_TRUE(buffer);
  fill(buffer->bytes(), 1);
  EXPECT_TRUE(holds(buffer->bytes(), 1));
}

TEST(Fork, ChildMayOpenTheDeviceForItself) {
  ConnectedPair pair;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto context = open_device(settings().device);
    _exit(context && context->allocate_domain() ? 0 : 1);
  }
  int status = 0;
  const bool ended = eventually([&] { return waitpid(child, &status, WNOHANG) == child; });
  if (!ended) kill(child, SIGKILL);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  exchange(pair);
}

}  // namespace
}  // namespace verbatim::test
