// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an atomic is atomic, however each of several requesters reaches the word.
// Method: processes that map the memory, that copy it (VERBATIM_SOFT_MEMORY=process), that let its
//         owner copy (relay), that see another pid namespace, and the owner itself: all add to the
//         same words at once, by fetch-and-add and by compare-and-swap. The sums must be exact.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstring>
#include <thread>

#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// What one requester has done to each word.
struct Counts {
  std::uint64_t added = 0;
  std::uint64_t swapped = 0;
};

/// Adds to the first word of a region, and counts up the second one by swaps.
class Counter {
 public:
  Counter(const ProtectionDomain& domain, QueuePair& queue_pair, CompletionQueue& queue,
          const RemoteMemoryRegion& words)
      : queue_pair_(queue_pair),
        queue_(queue),
        old_(require(domain.allocate(8))),
        to_add_(require(RemoteAtomic::at(words, 0))),
        to_swap_(require(RemoteAtomic::at(words, 8))) {}

  void step() {
    run(FetchAdd{old_.scatter(), to_add_, 1});
    ++counts_.added;
    const std::uint64_t before = run(CompareSwap{old_.scatter(), to_swap_, seen_, seen_ + 1});
    if (before == seen_) ++counts_.swapped;
    seen_ = before == seen_ ? seen_ + 1 : before;
  }
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  template <class Work>
  std::uint64_t run(const Work& work) {
    require(unsafe::post(queue_pair_, work, WrId{1}));
    poll_ok(queue_);
    std::uint64_t old = 0;
    std::memcpy(&old, old_.bytes().data(), sizeof old);
    return old;
  }
  QueuePair& queue_pair_;
  CompletionQueue& queue_;
  Buffer old_;
  RemoteAtomic to_add_;
  RemoteAtomic to_swap_;
  std::uint64_t seen_ = 0;
  Counts counts_;
};

/// Counts until it gets the order to stop. Arguments: "own" for a separate /proc. Link: to the
/// owner. Sends: r, d (done), c (cannot). Receives: g, q.
int play_counter(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  if (role.at(1) == "own" && (unshare(CLONE_NEWNS) != 0 ||
                              mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                              mount("proc", "/proc", "proc", 0, nullptr) != 0)) {
    control.say('c');
    return 0;
  }
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context(), 64);
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  be_patient(options);
  Meeting with = meet(link, options);
  Counter counter{domain, with.queue_pair, queue, with.peer_memory};
  control.say('r');
  if (control.hear() != 'g') return 1;
  do counter.step();  // At least once, however late this process gets a processor.
  while (control.overhear() != 'q');
  std::array<std::byte, sizeof(Counts)> record;
  std::memcpy(record.data(), &counter.counts(), sizeof(Counts));
  link.send(record);
  control.say('d');
  link.wait_for_end();
  return 0;
}
const Role kCounter{"counter", &play_counter};

/// One requester, as the owner of the words sees it.
struct Requester {
  Process process;
  Link link;
  std::optional<Meeting> with;
};

Requester start_requester(const char* path, const char* proc) {
  setenv("VERBATIM_SOFT_MEMORY", path, 1);
  const auto [here, there] = socket_pair();
  Requester made{Process::start({"counter", proc}, {there}), Link{here}, {}};
  unsetenv("VERBATIM_SOFT_MEMORY");
  return made;
}

void count_all_ways(bool in_buffer, bool other_namespace) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  alignas(8) std::array<std::byte, 16> plain{};
  const SharedRegion words = in_buffer
                                 ? require(domain.allocate_shared(16, Access::remote_atomic))
                                 : require(domain.register_shared(plain, Access::remote_atomic));
  std::vector<Requester> all;
  for (const char* const path : {"mapped", "process", "relay"})
    all.push_back(start_requester(path, "-"));
  if (other_namespace) {
    // Only for the next child, because a process with two namespaces may not start threads.
    const int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWPID) != 0) cannot("a pid namespace");
    all.push_back(start_requester("mapped", "own"));
    if (setns(own, CLONE_NEWPID) != 0) cannot("the pid namespace before");
    ::close(own);
  }
  CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  be_patient(options);
  for (Requester& each : all) {
    try {
      each.with.emplace(meet(each.link, options, words.remote()));
    } catch (const SetupFailed&) {
      if (each.process.control().hear() == 'c') cannot("a /proc of its own");
      throw;
    }
    const char word = each.process.control().hear();
    if (word == 'c') cannot("a /proc of its own");
    ASSERT_EQ(word, 'r');
  }
  ConnectedPair self{domain, {.both = be_patient}};  // The others hold locks, and may be held up.
  Counter own{domain, self.local.queue_pair, self.local.sends, words.remote()};
  for (const Requester& each : all) each.process.control().say('g');
  const auto end = std::chrono::steady_clock::now() + 700ms * stress_factor();
  while (std::chrono::steady_clock::now() < end) own.step();
  Counts sum = own.counts();
  for (const Requester& each : all) each.process.control().say('q');
  for (Requester& each : all) {
    Counts counts;
    const auto record = each.link.receive();
    std::memcpy(&counts, record.data(), sizeof counts);
    EXPECT_GT(counts.added, 0u);
    sum.added += counts.added;
    sum.swapped += counts.swapped;
  }
  EXPECT_EQ(words.load_acquire<std::uint64_t>(0), sum.added) << "fetch-and-add";
  EXPECT_EQ(words.load_acquire<std::uint64_t>(8), sum.swapped) << "compare-and-swap";
}

class Atomics : public testing::TestWithParam<bool> {};

TEST_P(Atomics, OfAllPathsSeeEachOther) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s * stress_factor(), [] { count_all_ways(GetParam(), false); });
}

TEST_P(Atomics, OfAllPathsAndAnotherPidNamespaceSeeEachOther) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s * stress_factor(), [] { count_all_ways(GetParam(), true); });
}

INSTANTIATE_TEST_SUITE_P(Memory, Atomics, testing::Bool(),
                         [](const auto& each) { return each.param ? "Buffer" : "Plain"; });

}  // namespace
}  // namespace verbatim::test
