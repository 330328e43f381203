// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that a peer frees and allocates again is new memory for all: what is written to the
//       new window arrives there, although it has the place of the old one in all tables.
// Method: an owner that frees and allocates a window again and again; two threads here that write
//         one half each, at the same moment, as soon as they know it; the owner checks every byte.
//         Also a writer with two threads, the first of which is held at each instruction after it
//         has mapped the new window, while the second writes.
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "support/pattern.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "survival/single_steps.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// Half a window, which has a memory object of its own: smaller ones may share one, and the next
/// window then needs no mapping.
constexpr std::size_t kHalf = 256 << 10;
constexpr std::byte kWritten{0x5a};

/// Ends if a byte is wrong. Arguments: how many windows. Link: to the writer.
int play_renewer(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  const Meeting first = meet(link, queue_pair_options(domain, queue, queue));
  const Meeting second = meet(link, queue_pair_options(domain, queue, queue));
  for (std::uint64_t round = 0; round < std::stoull(role.at(1)); ++round) {
    SharedRegion window = require(domain.allocate_shared(2 * kHalf, Access::remote_write));
    link.send(encode(window.remote()));
    link.barrier();
    const auto bytes = window.quiescent_bytes();
    if (!holds(bytes.first(kHalf), round) || !holds(bytes.last(kHalf), ~round)) return 1;
    link.barrier();
  }
  link.wait_for_end();
  return 0;
}
const Role kRenewer{"renewer", &play_renewer};

TEST(Windows, ReplacedByNewOnesAreWrittenWhereTheyAreNow) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [] {
    const unsigned rounds = 2000 * stress_factor();
    const auto [here, there] = socket_pair();
    const Process owner = Process::start({"renewer", std::to_string(rounds)}, {there});
    Link link{here};
    const ProtectionDomain domain = require(open_context().allocate_domain());
    CompletionQueue queues[] = {completion_queue(domain.context()),
                                completion_queue(domain.context())};
    Meeting with[] = {meet(link, queue_pair_options(domain, queues[0], queues[0])),
                      meet(link, queue_pair_options(domain, queues[1], queues[1]))};
    Buffer sources[] = {require(domain.allocate(kHalf)), require(domain.allocate(kHalf))};
    RemoteMemoryRegion window;
    std::barrier told{3};
    std::barrier written{3};
    const auto write = [&](std::size_t which) {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        fill(sources[which].bytes(), which == 0 ? round : ~round);
        told.arrive_and_wait();
        const auto half = window.sub_region(which * kHalf, kHalf).value();
        require(unsafe::post(with[which].queue_pair, Write{sources[which].gather(), half},
                             WrId{round}));
        poll_ok(queues[which]);
        written.arrive_and_wait();
      }
    };
    std::jthread first{write, std::size_t{0}};
    std::jthread second{write, std::size_t{1}};
    for (unsigned round = 0; round < rounds; ++round) {
      window = require(decode_remote_memory(link.receive()));
      told.arrive_and_wait();
      written.arrive_and_wait();
      link.barrier();
      try {
        link.barrier();
      } catch (const SetupFailed&) {
        end_failed("the owner found wrong bytes in window " + std::to_string(round));
      }
    }
  });
}

/// Two writers in one process: the first is single-stepped, the second writes on order. Links: to
/// the owner, and the second thread's control. Second control: receives g, q; sends d.
int play_pair_of_writers(const std::vector<std::string>&) {
  Link link{kFirstLinkFd};
  const Control orders{kFirstLinkFd + 1};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queues[] = {completion_queue(domain.context()),
                              completion_queue(domain.context())};
  Meeting with[] = {meet(link, queue_pair_options(domain, queues[0], queues[0])),
                    meet(link, queue_pair_options(domain, queues[1], queues[1]))};
  Buffer source = require(domain.allocate(kHalf));
  std::ranges::fill(source.bytes(), kWritten);
  RemoteMemoryRegion window;
  const auto write = [&](std::size_t which) {
    require(unsafe::post(with[which].queue_pair,
                         Write{source.gather(), window.sub_region(which * kHalf, kHalf).value()},
                         WrId{1}));
  };
  std::jthread second{[&] {
    while (orders.hear(kStuck) == 'g') {
      write(1);
      poll_ok(queues[1]);
      orders.say('d');
    }
  }};
  for (auto next = link.receive(); next.size() > 1; next = link.receive()) {
    window = require(decode_remote_memory(next));
    let_steps_begin();
    write(0);
    let_steps_end();
    poll_ok(queues[0]);
    link.barrier();
  }
  return 0;
}
const Role kPairOfWriters{"pair-of-writers", &play_pair_of_writers};

/// Code that is not optimized executes many more instructions for the same step.
#if defined(__OPTIMIZE__)
constexpr unsigned kStride = 1;
#else
constexpr unsigned kStride = 24;
#endif

/// Holds the first writer this many instructions after it has mapped something, while the second
/// one writes. Returns whether that one was done meanwhile.
bool hold_after_mapping(const Process& writers, const Control& second, unsigned instructions,
                        std::chrono::milliseconds patience) {
  if (!wait_for_steps(writers.pid())) cannot("tracing a child");
  if (!run_to_mapping(writers.pid())) end_failed("the writer does not map the new window");
  static_cast<void>(step(writers.pid(), instructions));
  second.say('g');
  // It may have to wait for the first one, which holds a lock now.
  const bool is_done = eventually([&] { return second.overhear().has_value(); }, patience);
  run_to_end_of_steps(writers.pid());
  if (!is_done) static_cast<void>(second.hear());
  return is_done;
}

TEST(Windows, BeingReplacedInOneThreadAreWrittenWhereTheyAreNowInAnother) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "what maps memory is known of x86-64 only";
#endif
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck, [] {
    const auto [here, there] = socket_pair();
    const auto [orders, taken] = socket_pair();
    Process writers = Process::start({"pair-of-writers"}, {there, taken});
    const Control second{orders};
    Link link{here};
    const ProtectionDomain domain = require(open_context().allocate_domain());
    CompletionQueue queue = completion_queue(domain.context());
    const Meeting with[] = {meet(link, queue_pair_options(domain, queue, queue)),
                            meet(link, queue_pair_options(domain, queue, queue))};
    unsigned overtaken = 0;
    for (unsigned instructions = 0; instructions < 120; ++instructions) {
      SharedRegion window = require(domain.allocate_shared(2 * kHalf, Access::remote_write));
      link.send(encode(window.remote()));
      const auto patience = overtaken == 0 ? 200ms : 5ms;  // A busy machine may need it once.
      if (hold_after_mapping(writers, second, instructions * kStride, patience)) ++overtaken;
      link.barrier();
      ASSERT_TRUE(all_equal(window.quiescent_bytes(), kWritten))
          << "held " << instructions * kStride << " instructions after mapping";
    }
    EXPECT_GT(overtaken, 0u) << "the second writer never came in between";
    second.say('q');
    const std::byte end{0};
    link.send({&end, 1});
    EXPECT_EQ(writers.wait_for_end(), 0);
  });
}

}  // namespace
}  // namespace verbatim::test
