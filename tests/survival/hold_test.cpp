// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that is taken back is not written afterwards, whatever the writer does. A writer
//       that was killed in the middle of a copy does not get in the way; one that was stopped there
//       makes taking back fail in bounded time, and succeed after it continues.
// Method: the source of the copy has a page without any rights. The handler of the fault, inside
//         the copy, stops the process there, and restores the rights when it is continued. There
//         are two ways in (access_guard.hpp): an "again" write is like one before it, and takes the
//         fast one.
// Covers: soft/access_guard.cpp
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "soft/control/queue_pair.hpp"
#include "soft/memory/registration.hpp"
#include "survival/conversation.hpp"
#include "survival/process.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeldBytes = 4 * kPage;
std::byte* forbidden = nullptr;

void stop_inside(int) {
  const char word = 'h';
  static_cast<void>(send(kControlFd, &word, 1, MSG_NOSIGNAL));
  raise(SIGSTOP);
  mprotect(forbidden, kPage, PROT_READ | PROT_WRITE);
}

}  // namespace

/// Arguments: write, again or send. Link: to the test. Sends: h (inside a copy), d (done), e
/// (failed).
int play_holder(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  Session session = join(link);
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, kHeldBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const std::span<std::byte> bytes{memory, kHeldBytes};
  fill(bytes, 7);
  const MemoryRegion region = require(session.domain.register_local(bytes));
  struct sigaction action{};
  action.sa_handler = &stop_inside;
  sigaction(SIGSEGV, &action, nullptr);
  link.barrier();  // The receive is posted.
  const auto write = [&] {
    session.side.post(Write{region.gather(bytes), session.peer_memory}, 1);
  };
  if (role.at(1) == "again") {
    write();
    if (!poll_one(session.side.sends).ok()) return 1;
  }
  forbidden = memory + kPage;
  if (mprotect(forbidden, kPage, PROT_NONE) != 0) return 1;
  if (role.at(1) == "send")
    session.side.post(Send{region.gather(bytes)}, 1);
  else
    write();
  control.say(poll_one(session.side.sends).ok() ? 'd' : 'e');
  return control.hear() == 'q' ? 0 : 1;
}

namespace {

using Clock = std::chrono::steady_clock;

/// What takes longer waits for as long as its peer is stopped. A call that waits in vain for a
/// shorter time returns EBUSY, so the results show it.
constexpr std::chrono::seconds kBounded{15};

/// A process that is stopped while it copies into our memory.
class Held : public testing::TestWithParam<const char*> {
 protected:
  Held() {
    session.side.post(Receive{sink.scatter()}, 5);
    link.barrier();
    if (holder.control().hear() != 'h') give_up("not inside a copy", Where::current());
    holder.wait_until_stopped();
  }

  /// Calls `take_back`, and expects it to give up in bounded time.
  template <class F>
  void expect_busy(F take_back) {
    const auto start = Clock::now();
    EXPECT_EQ(take_back(), EBUSY);
    EXPECT_LT(Clock::now() - start, kBounded);
  }
  template <class F>
  void expect_done(F take_back) {
    const auto start = Clock::now();
    EXPECT_EQ(take_back(), 0);
    EXPECT_LT(Clock::now() - start, kBounded);
  }
  int deregister() { return engine::deregister_memory(unsafe::native(session.exposed.region())); }
  /// Changes to rights that allow no access.
  int reregister() {
    ibv_mr* const region = unsafe::native(session.exposed.region());
    const int failed = engine::reregister_memory(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                                                 nullptr, 0, IBV_ACCESS_LOCAL_WRITE);
    return failed != 0 ? errno : 0;
  }
  int destroy() { return engine::destroy_queue_pair(unsafe::native(session.side.queue_pair)); }
  int break_it() {
    const auto moved = session.side.queue_pair.move_to_error();
    return moved ? 0 : moved.error().os_error;
  }
  int destroy_for_good() {
    const auto destroyed = session.side.queue_pair.destroy();
    return destroyed ? 0 : destroyed.error().os_error;
  }
  char resume() {
    holder.resume();
    return holder.control().hear();
  }
  void let_go() {
    holder.control().say('q');
    EXPECT_EQ(holder.wait_for_end(), 0);
  }

  SoftDirectory directory;
  std::pair<int, int> ends = socket_pair();
  Process holder = Process::start({"holder", GetParam()}, {ends.second});
  Link link{ends.first};
  Session session = join(link);
  Buffer sink = require(session.domain.allocate(kHeldBytes));
};

/// It is stopped in a write into a region, so it holds the region.
class HeldRegion : public Held {};
/// It is stopped in a send into a receive, so it holds the receive of the queue pair.
class HeldReceive : public Held {};

TEST_P(HeldRegion, MakesDeregistrationFail) {
  expect_busy([&] { return deregister(); });
  // Nothing was taken back, so the copy is valid.
  EXPECT_EQ(resume(), 'd');
  EXPECT_TRUE(holds(session.exposed.bytes().first(kHeldBytes), 7));
  let_go();
}

TEST_P(HeldRegion, MakesReregistrationFailAndTheOldKeyStays) {
  const std::uint32_t key = unsafe::native(session.exposed.region())->rkey;
  expect_busy([&] { return reregister(); });
  EXPECT_EQ(unsafe::native(session.exposed.region())->rkey, key);
  EXPECT_EQ(resume(), 'd');
  expect_done([&] { return reregister(); });
  EXPECT_EQ(unsafe::native(session.exposed.region())->rkey, key);  // Only rights have changed.
  let_go();
}

TEST_P(HeldReceive, MakesMovingToErrorFail) {
  expect_busy([&] { return break_it(); });
  static_cast<void>(resume());
  expect_done([&] { return break_it(); });
  // The receive comes back, used by the send or flushed, but only once.
  EXPECT_EQ(poll_one(session.side.receives).id(), WrId{5});
  EXPECT_FALSE(poll_within(session.side.receives, std::chrono::milliseconds{20}));
  let_go();
}

TEST_P(HeldReceive, MakesDestroyingFail) {
  expect_busy([&] { return destroy(); });
  static_cast<void>(resume());
  let_go();
  // The fixture destroys it for good.
}

// The queue pair breaks by itself, and nobody has waited yet until the peer has left.
TEST_P(HeldReceive, IsNotFlushedByAPostAfterAnError) {
  const ProtectionDomain other = require(session.domain.context().allocate_domain());
  const Buffer foreign = require(other.allocate(100));
  session.side.post(Send{foreign.gather()}, 1);
  EXPECT_EQ(poll_one(session.side.sends).status(), WorkStatus::local_protection);
  session.side.post(Receive{}, 6);
  EXPECT_FALSE(poll_within(session.side.receives, std::chrono::milliseconds{100}))
      << "the peer still writes to the first receive";
  EXPECT_EQ(resume(), 'd');
  EXPECT_TRUE(succeeded_in_order({poll_one(session.side.receives)}, 5));
  EXPECT_TRUE(holds(sink.bytes(), 7));
  expect_done([&] { return break_it(); });
  EXPECT_TRUE(flushed_in_order({poll_one(session.side.receives)}, 6));
  session.side.post(Receive{}, 7);
  EXPECT_TRUE(flushed_in_order({poll_one(session.side.receives)}, 7)) << "now at once";
  let_go();
}

// The error state came, but the flush could not follow. The requests that wait are still the older
// ones.
TEST_P(HeldReceive, KeepsNoRequestBehindANewerOne) {
  for (std::uint64_t id = 1; id < 4; ++id) session.side.post(Send{}, id);
  expect_busy([&] { return break_it(); });
  session.side.post(Send{}, 4);
  EXPECT_TRUE(flushed_in_order(poll_many(session.side.sends, 4), 1));
  static_cast<void>(resume());
  let_go();
}

TEST_P(Held, KilledWriterIsInNobodysWay) {
  holder.kill();
  expect_done([&] { return break_it(); });
  EXPECT_TRUE(flushed_in_order({poll_one(session.side.receives)}, 5));
  expect_done([&] { return reregister(); });
  expect_done([&] { return destroy_for_good(); });
}

const auto kName = [](const auto& each) { return each.param; };
INSTANTIATE_TEST_SUITE_P(Copies, Held, testing::Values("write", "again", "send"), kName);
INSTANTIATE_TEST_SUITE_P(Copies, HeldRegion, testing::Values("write", "again"), kName);
INSTANTIATE_TEST_SUITE_P(Copies, HeldReceive, testing::Values("send"), kName);

}  // namespace
}  // namespace verbatim::test
