// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that got the pid of a dead peer is not mistaken for it: no byte of its memory is
//       read or written, and the request ends with retry_exceeded.
// Method: in a separate pid namespace, where the next pid can be chosen: a peer shares ordinary
//         memory and is killed; an innocent process gets its pid and maps memory at the same
//         address; then we write and read.
// Covers: soft/liveness.cpp
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <fstream>

#include "support/pattern.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kExposedBytes = 64 << 10;
constexpr std::byte kUntouched{0xee};

/// The same address in every process of the test.
std::span<std::byte> memory_at_a_place() {
  void* const place = reinterpret_cast<void*>(std::uintptr_t{0x2a00'0000'0000});
  void* const memory = mmap(place, kExposedBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != place) give_up("the place is taken", Where::current());
  return {static_cast<std::byte*>(memory), kExposedBytes};
}

/// Shares ordinary memory until it is killed. Link: to the writer.
int play_placed(const std::vector<std::string>&) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const auto memory = memory_at_a_place();
  const SharedRegion shared = require(domain.register_shared(memory));
  CompletionQueue queue = completion_queue(domain.context());
  const Meeting with = meet(link, queue_pair_options(domain, queue, queue), shared.remote());
  link.wait_for_end();
  return 0;
}
const Role kPlaced{"placed", &play_placed};

/// Runs `body` in the first process of a pid namespace, with a separate /proc.
template <class Body>
void in_pid_namespace(Body body) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) cannot("a pid namespace");
  const int status =
      status_within(start_contained([&] {
                      if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                          mount("proc", "/proc", "proc", 0, nullptr) != 0)
                        cannot("a /proc of its own");
                      body();
                    }),
                    40s);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot) std::_Exit(kCannot);
  EXPECT_EQ(status, 0) << describe_end(status);
}

/// A child with this pid, which must be free. It fills its memory, waits for a byte, and exits with
/// 0 if the memory is unchanged.
pid_t start_innocent(pid_t wanted, const Control& its_end) {
  std::ofstream last{"/proc/sys/kernel/ns_last_pid"};
  last << wanted - 1 << std::flush;
  if (!last) cannot("choosing a pid");
  const pid_t child = start_contained([&] {
    const auto memory = memory_at_a_place();
    std::ranges::fill(memory, kUntouched);
    its_end.say('r');
    static_cast<void>(its_end.hear());
    EXPECT_TRUE(all_equal(memory, kUntouched));
  });
  if (child != wanted) cannot("that pid");
  return child;
}

/// A single word takes another path than much data.
void write_to_the_dead(bool reads, std::size_t bytes) {
  const auto [here, there] = socket_pair();
  Process peer = Process::start({"placed"}, {there});
  const pid_t pid = peer.pid();
  Link link{here};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  options.ack_timeout = require(AckTimeout::at_least(30ms));
  options.max_ack_retries = require(MaxAckRetries::limited(3));
  Meeting with = meet(link, options);
  Buffer memory = require(domain.allocate(kExposedBytes));
  fill(memory.bytes(), 1);
  const auto target = with.peer_memory.sub_region(0, bytes).value();
  const auto post = [&] {
    require(reads ? unsafe::post(with.queue_pair, Read{memory.scatter(0, bytes), target}, WrId{1})
                  : unsafe::post(with.queue_pair, Write{memory.gather(0, bytes), target}, WrId{1}));
  };
  post();
  poll_ok(queue);  // It works while the peer lives.
  fill(memory.bytes(), 2);
  peer.kill();
  const auto [ours, its] = socket_pair();
  const pid_t innocent = start_innocent(pid, Control{its});
  ASSERT_EQ(Control{ours}.hear(), 'r');
  post();
  EXPECT_EQ(poll_one(queue).status(), WorkStatus::retry_exceeded);
  EXPECT_TRUE(holds(memory.bytes(), 2)) << "nothing of the innocent process came";
  Control{ours}.say('q');
  EXPECT_EQ(status_within(innocent, 20s), 0) << "memory of a process that was no peer";
}

class PidReuse : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, PidReuse, testing::Values(8, kExposedBytes));

TEST_P(PidReuse, WriteToADeadPeerTouchesNobody) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] { in_pid_namespace([] { write_to_the_dead(false, GetParam()); }); });
}

TEST_P(PidReuse, ReadFromADeadPeerBringsNothingOfAnother) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] { in_pid_namespace([] { write_to_the_dead(true, GetParam()); }); });
}

}  // namespace
}  // namespace verbatim::test
