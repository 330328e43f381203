// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that is taken back is not written by a process that exits while it writes, however
//       long its exit takes.
// Method: one thread of a peer writes without end. Its main thread returns from main(), and an exit
//         handler, which was registered before the device was opened and so comes last, waits for
//         the test.
// Covers: soft/engine.cpp
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "support/pattern.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 256 << 20;  // A copy takes dozens of milliseconds.
constexpr std::size_t kLast = 4096;        // The part that a copy reaches last.
constexpr std::byte kTheirs{0x77};
constexpr std::byte kOurs{0x11};

void linger() {
  const Control control{kControlFd};
  control.say('x');
  static_cast<void>(control.hear());
}

/// Link: to the owner. Sends: w (it writes), x (it exits). Receives: a letter when it may end.
int play_exiting(const std::vector<std::string>&) {
  std::atexit(&linger);
  // Nobody destroys them, as in many programs that end by exit().
  static Link& link = *new Link{kFirstLinkFd};
  static const auto& domain = *new ProtectionDomain{require(open_context().allocate_domain())};
  static CompletionQueue& queue = *new CompletionQueue{completion_queue(domain.context())};
  static Meeting& with = *new Meeting{meet(link, queue_pair_options(domain, queue, queue))};
  static Buffer& source = *new Buffer{require(domain.allocate(kBytes))};
  std::ranges::fill(source.bytes(), kTheirs);
  const Control control{kControlFd};
  static std::atomic<bool> has_written{false};
  std::thread{[] {
    for (std::array<Completion, 1> done;;) {
      if (!unsafe::post(with.queue_pair, Write{source.gather(), with.peer_memory}, WrId{1})) break;
      while (require(queue.poll(done)) == 0) {
      }
      if (!done[0].ok()) break;
      has_written = true;
    }
    for (;;) pause();
  }}.detach();
  if (!eventually([] { return has_written.load(); })) return 1;
  control.say('w');
  static_cast<void>(control.hear());
  std::exit(0);
}
const Role kExiting{"exiting", &play_exiting};

TEST(ExitingPeer, WritesNothingOnceItCountsAsDead) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [] {
    const auto [here, there] = socket_pair();
    Process writer = Process::start({"exiting"}, {there});
    Link link{here};
    const ProtectionDomain domain = require(open_context().allocate_domain());
    CompletionQueue queue = completion_queue(domain.context());
    std::vector<std::byte> memory(kBytes);
    std::optional<SharedRegion> region = require(domain.register_shared(memory));
    const Meeting with = meet(link, queue_pair_options(domain, queue, queue), region->remote());
    ASSERT_EQ(writer.control().hear(), 'w');
    writer.control().say('e');
    ASSERT_EQ(writer.control().hear(), 'x');
    region.reset();  // It waits for those who are inside, and for nobody who is dead.
    const std::span last = std::span{memory}.last(kLast);
    std::ranges::fill(last, kOurs);
    EXPECT_FALSE(eventually([&] { return !all_equal(last, kOurs); }, 300ms))
        << "a dead process wrote into memory that is ours again";
    writer.control().say('q');
    EXPECT_EQ(writer.wait_for_end(), 0);
  });
}

}  // namespace
}  // namespace verbatim::test
