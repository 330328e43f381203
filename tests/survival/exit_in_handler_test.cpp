// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a program ends when its signal handler calls exit(), whatever the signal interrupts: the
//       allocation of memory, the opening of a device, the polling of a queue.
// Method: a process runs to a random instruction, or system call, of such a call, and gets the
//         signal there. exit() is not permitted in a handler, but programs do it, qperf among them.
// Covers: soft/engine.cpp, soft/directory.cpp
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/seed.hpp"
#include "survival/contained.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "survival/single_steps.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSeveral = 4;

/// So large that malloc() takes a lock of the whole process.
void use_allocator() {
  void* volatile const memory = std::malloc(40'000);
  std::free(memory);
}

/// A datagram queue pair with some completions to poll, and a request that waits.
class Datagrams {
 public:
  Datagrams() {
    soft::FaultPlan plan;
    plan.operations.push_back(
        {.kind = soft::FaultKind::delay, .operation = kSeveral + 1, .delay = 60s});
    soft::set_behaviour({.faults = std::move(plan)});
    QueuePairOptions options = queue_pair_options(domain_, queue_, queue_);
    options.type = QueuePairType::unreliable_datagram;
    auto prepared = require(QueuePair::prepare(options));
    here_ = prepared.endpoint();
    queue_pair_ = require(std::move(prepared).activate());
    to_ = require(queue_pair_->address_handle(*here_));
    for (std::size_t i = 0; i < kSeveral + 1; ++i) post();
  }
  void poll_all() {
    for (std::size_t i = 0; i < kSeveral; ++i) poll_ok(queue_);
  }

 private:
  void post() {
    require(unsafe::post(*queue_pair_,
                         Datagram{source_.gather(), *to_, here_->queue_pair, here_->queue_key},
                         WrId{1}));
  }

  ProtectionDomain domain_ = require(open_context().allocate_domain());
  CompletionQueue queue_ = completion_queue(domain_.context());
  Buffer source_ = require(domain_.allocate(64));
  std::optional<Endpoint> here_;
  std::optional<QueuePair> queue_pair_;
  std::optional<AddressHandle> to_;
};

struct Call {
  const char* name;
  void (*prepare)();
  void (*run)();  ///< In steps.
  /// Takes so many steps, or fewer if the call ends.
  unsigned (*advance)(pid_t process, unsigned steps);
};

unsigned to_system_calls(pid_t process, unsigned steps) {
  for (unsigned taken = 0; taken < steps; ++taken)
    if (!run_to_system_call(process)) return taken;
  return steps;
}

Datagrams* datagrams = nullptr;

// Nobody destroys what is open, as in a program that ends by exit().
constexpr Call kCalls[] = {
    {"allocation", [] { static_cast<void>(new Context{open_context()}); }, &use_allocator, &step},
    {"open", [] { static_cast<void>(open_context()); },
     [] { static_cast<void>(new Context{open_context()}); }, &to_system_calls},
    {"poll", [] { datagrams = new Datagrams; }, [] { datagrams->poll_all(); }, &step},
};

/// Argument: the number of the call. Receives: SIGTERM.
int play_interrupted(const std::vector<std::string>& role) {
  const Call& call = kCalls[std::stoul(role.at(1))];
  std::atexit([] { std::_Exit(0); });  // Before GoogleTest's objects are destroyed: they free().
  std::signal(SIGTERM, [](int) { std::exit(0); });
  std::signal(SIGUSR1, SIG_IGN);  // The end of the steps may come first.
  std::thread{[] {
    for (;;) pause();
  }}.detach();  // In a process with one thread, malloc() takes no lock.
  call.prepare();
  let_steps_begin();
  call.run();
  let_steps_end();
  return 0;
}
const Role kInterrupted{"interrupted", &play_interrupted};

class ExitInAHandler : public testing::TestWithParam<std::size_t> {};

TEST_P(ExitInAHandler, EndsTheProgram) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [&] {
    Random random{start};
    const Call& call = kCalls[GetParam()];
    const auto begin = [] {
      Process process = Process::start({"interrupted", std::to_string(GetParam())});
      if (!wait_for_steps(process.pid())) cannot("tracing a child");
      return process;
    };
    constexpr unsigned kAll = 10'000'000;  // A poll may have to wait for the device's own thread.
    const unsigned whole = call.advance(begin().pid(), kAll);
    ASSERT_LT(whole, kAll);
    for (unsigned round = 0; round < 12 * stress_factor(); ++round) {
      Process process = begin();
      const auto steps = static_cast<unsigned>(random.up_to(whole));
      SCOPED_TRACE(std::to_string(steps) + " of " + std::to_string(whole) + " steps");
      static_cast<void>(call.advance(process.pid(), steps));
      ptrace(PTRACE_DETACH, process.pid(), nullptr, SIGTERM);
      ASSERT_EQ(process.wait_for_end(), 0);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Calls, ExitInAHandler, testing::Range(std::size_t{0}, std::size(kCalls)),
                         [](const auto& each) { return kCalls[each.param].name; });

}  // namespace
}  // namespace verbatim::test
