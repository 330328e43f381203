// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the library's own threads take no signal that is meant for the program, and the library
//       opens the process only to processes that were named.
// Method: the signal masks of all threads but the first, from /proc; a system call filter that ends
//         a process that lets any other trace it.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "support/connected_pair.hpp"
#include "survival/contained.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// A line of a thread's status in /proc.
std::string status_line(const std::filesystem::path& thread, std::string_view name) {
  std::ifstream status{thread / "status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return line.substr(name.size());
  give_up("no status of " + thread.string(), Where::current());
}

/// The signals that a thread blocks, one bit each, once it sleeps, because a thread that starts
/// blocks all of them.
std::uint64_t blocked_by(const std::filesystem::path& thread) {
  if (!eventually([&] { return status_line(thread, "State:\t")[0] == 'S'; }))
    give_up("it never sleeps", Where::current());
  return std::stoull(status_line(thread, "SigBlk:\t"), nullptr, 16);
}

TEST(Signals, AreNotTakenByThreadsOfTheLibrary) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(30s, [] {
    ConnectedPair pair;
    pair.local.post(send_immediate(7), 1);  // It has no receive, so a thread has to wait for one.
    const auto own = std::to_string(gettid());
    // It names itself when it begins.
    ASSERT_TRUE(eventually([] { return helper_of(getpid()) != 0; }));
    unsigned others = 0;
    for (const auto& thread : std::filesystem::directory_iterator{"/proc/self/task"}) {
      if (thread.path().filename() == own) continue;
      ++others;
      const std::uint64_t blocked = blocked_by(thread.path());
      for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM,
                               SIGCHLD, SIGPROF, SIGRTMIN + 1})
        EXPECT_NE(blocked >> (signal - 1) & 1, 0u)
            << "a thread of the library may get " << strsignal(signal);
    }
    EXPECT_GE(others, 2u) << "the helper, and one for events";
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    EXPECT_EQ(sigismember(&now, SIGUSR1), 0) << "the program's own mask is as it was";
    pair.remote.post(Receive{}, 2);
    poll_ok(pair.local.sends);
  });
}

/// From now on, naming a tracer ends the process.
void forbid_naming_a_tracer() {
  constexpr auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto argument = static_cast<std::uint32_t>(offsetof(seccomp_data, args));
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(PR_SET_PTRACER), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0)
    cannot("a system call filter");
}

/// Opens the device and uses it, in a new process, because what is tested happens once per process.
int play_untraced(const std::vector<std::string>&) {
  forbid_naming_a_tracer();
  ConnectedPair pair;
  exchange(pair);
  return testing::Test::HasFailure() ? 1 : 0;
}
const Role kUntraced{"untraced", &play_untraced};

TEST(Tracing, IsAllowedToNobodyUnasked) {
  const SoftDirectory directory;
  Process process = Process::start({"untraced"});
  const int status = process.wait_for_end();
  if (status == kCannot) GTEST_SKIP() << "no filters here";
  EXPECT_EQ(status, 0) << (status == 128 + SIGSYS ? "it named a tracer" : "");
}

// Otherwise the test above would prove nothing.
TEST(Tracing, FilterOfThisTestFindsItOut) {
  const int status = status_within(start_contained([] {
                                     forbid_naming_a_tracer();
                                     prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
                                   }),
                                   10s);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot) GTEST_SKIP() << "no filters here";
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << describe_end(status);
}

}  // namespace
}  // namespace verbatim::test
