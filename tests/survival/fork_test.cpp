// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a forked child starts with a separate software device: nothing of its parent's is mixed
//       into it, and nothing that a thread of the parent was doing hangs it.
// Method: a child registers ordinary memory exactly where its parent had a Buffer, and another
//         process writes to it; and a parent whose threads allocate, free, register, connect and
//         send forks many times, with each child moving verified data.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "support/pattern.hpp"
#include "support/test_memory.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "verbatim/channel/prepared_channel.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kForkedBytes = 1 << 20;
constexpr std::byte kMark{0x77};

/// Writes marks over all of the peer's memory. Link: to the owner.
int play_marker(const std::vector<std::string>&) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  Meeting with = meet(link, queue_pair_options(domain, queue, queue));
  Buffer source = require(domain.allocate(with.peer_memory.length));
  std::ranges::fill(source.bytes(), kMark);
  require(unsafe::post(with.queue_pair, Write{source.gather(), with.peer_memory}, WrId{1}));
  poll_ok(queue);
  link.barrier();
  link.barrier();  // The owner has looked.
  return 0;
}
const Role kMarker{"marker", &play_marker};

/// Lets a peer write to memory of ours at `place`, where our parent had a Buffer.
void expose_memory_at(void* place) {
  // The kernel left a hole there, because Buffers are not inherited.
  void* const memory = mmap(place, kForkedBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(memory, place) << "the Buffer was inherited";
  const std::span<std::byte> ordinary{static_cast<std::byte*>(memory), kForkedBytes};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  // The child's own windows. They have the numbers that the parent's had.
  std::vector<SharedRegion> windows;
  for (int i = 0; i < 4; ++i)
    windows.push_back(require(domain.allocate_shared(kForkedBytes, Access::remote_write)));
  const SharedRegion exposed = require(domain.register_shared(ordinary));
  const auto [here, there] = socket_pair();
  Process marker = Process::start({"marker"}, {there});
  Link link{here};
  CompletionQueue queue = completion_queue(domain.context());
  const Meeting with = meet(link, queue_pair_options(domain, queue, queue), exposed.remote());
  link.barrier();
  EXPECT_TRUE(all_equal(ordinary, kMark)) << "where the peer wrote";
  for (SharedRegion& each : windows)
    EXPECT_TRUE(all_equal(each.quiescent_bytes(), std::byte{0})) << "where it did not";
  link.barrier();
  EXPECT_EQ(marker.wait_for_end(), 0);
}

TEST(ForkedChild, HasATableOfMemoryOfItsOwn) {
  const SoftDirectory directory;
  const ProtectionDomain domain = require(open_context().allocate_domain());
  std::vector<SharedRegion> windows;
  for (int i = 0; i < 4; ++i)
    windows.push_back(require(domain.allocate_shared(kForkedBytes, Access::remote_write)));
  for (SharedRegion& each : windows)
    VERBATIM_CONTAINED(30s, [&] { expose_memory_at(each.quiescent_bytes().data()); });
  for (SharedRegion& each : windows)
    EXPECT_TRUE(all_equal(each.quiescent_bytes(), std::byte{0})) << "the parent's";
}

// A Buffer of a child at an address that its parent uses for something else.
TEST(ForkedChild, FreesNothingOfItsParents) {
  const SoftDirectory directory;
  ConnectedPair pair;
  SharedRegion window = require(pair.domain.allocate_shared(kForkedBytes, Access::remote_write));
  VERBATIM_CONTAINED(30s, [&] {
    ConnectedPair own;
    exchange(own);
    const SharedRegion also =
        require(own.domain.allocate_shared(kForkedBytes, Access::remote_write));
  });
  exchange(pair);
  Buffer source = require(pair.domain.allocate(kForkedBytes));
  std::ranges::fill(source.bytes(), kMark);
  pair.local.post(Write{source.gather(), window.remote()}, 1);
  poll_ok(pair.local.sends);
  EXPECT_TRUE(all_equal(window.quiescent_bytes(), kMark));
}

/// Threads of the parent that are in the middle of something whenever it forks.
class BusyThreads {
 public:
  explicit BusyThreads(const ProtectionDomain& domain) {
    threads_.emplace_back([this, domain] {
      while (!stop_) static_cast<void>(require(domain.allocate(8192)));
    });
    threads_.emplace_back([this, domain] {
      std::vector<std::byte> memory(10'000);
      while (!stop_) static_cast<void>(require(domain.register_local(memory)));
    });
    threads_.emplace_back([this, domain] {
      while (!stop_) static_cast<void>(ConnectedPair{domain, {}});
    });
    threads_.emplace_back([this, domain] {
      while (!stop_) static_cast<void>(require(connect_pair(domain)));
    });
    threads_.emplace_back([this, domain] {
      ConnectedPair pair{domain, {}};
      Buffer memory = require(domain.allocate(128));
      for (std::uint64_t i = 0; !stop_; ++i) {
        pair.remote.post(Receive{memory.scatter(64, 64)}, i);
        pair.local.post(Send{memory.gather(0, 64)}, i);
        poll_ok(pair.local.sends);
        poll_ok(pair.remote.receives);
      }
    });
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& each : threads_) each.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST(ForkedChild, OfAParentWithBusyThreadsWorks) {
  const SoftDirectory directory;
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const BusyThreads busy{domain};
  for (unsigned round = 0; round < 200 * stress_factor(); ++round) {
    const int status = status_within(start_contained([] {
                                       ConnectedPair pair;
                                       exchange(pair);
                                     }),
                                     kPatience);
    ASSERT_EQ(status, 0) << "child " << round << ": " << describe_end(status);
  }
}

/// Opens the device for the first time in one thread, and forks meanwhile in another. Word: how
/// many microseconds after the beginning.
int play_first_opener(const std::vector<std::string>& role) {
  std::atomic<bool> begins{false};
  std::thread opener{[&] {
    begins = true;
    ConnectedPair pair;
    exchange(pair);
  }};
  const auto delay = std::chrono::microseconds{std::stoul(role.at(1))};
  while (!begins) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < delay) {
  }
  const int status = status_within(start_contained([] {
                                     ConnectedPair pair;
                                     exchange(pair);
                                   }),
                                   10s);
  opener.join();
  if (status != 0) std::fprintf(stderr, "the child: %s\n", describe_end(status).c_str());
  return status == 0 ? 0 : 1;
}
const Role kFirstOpener{"first_opener", &play_first_opener};

// A fork while another thread opens the device for the first time: the locks were held by a thread
// that the child does not have, and the handlers that unlock them were not registered yet.
TEST(ForkedChild, OfAParentThatIsOpeningItsFirstDeviceWorks) {
  const SoftDirectory directory;
  for (unsigned round = 0; round < 40 * stress_factor(); ++round) {
    const std::string delay = std::to_string(round % 40 * 25);
    Process process = Process::start({"first_opener", delay});
    ASSERT_EQ(process.wait_for_end(), 0) << "after " << delay << " us";
  }
}

}  // namespace
}  // namespace verbatim::test
