// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a signal that the program waits for reaches the program, and not a thread that the library
//       created.
// Method: a separate process, connected to this one, so that it has all threads of the library. It
//         checks the masks of all threads but its own, and waits for a signal in the two ways that
//         need every thread to block it.
#include <gtest/gtest.h>

#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "conformance/child_process.hpp"
#include "conformance/peer_session.hpp"
#include "conformance/signals_peer.hpp"
#include "support/raw_verbs.hpp"

namespace verbatim::test {
namespace {

/// The signals that a program may wait for. The others report an error in the thread that receives
/// them.
constexpr int kAwaitable[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGUSR1, SIGUSR2,  SIGPIPE,
                              SIGALRM, SIGTERM, SIGCHLD,   SIGCONT, SIGTSTP,  SIGTTIN,
                              SIGTTOU, SIGURG,  SIGVTALRM, SIGPROF, SIGWINCH, SIGIO};

/// The signals that a thread blocks: bit 0 is signal 1.
std::uint64_t blocked_by(const std::filesystem::path& thread) {
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return ~std::uint64_t{0};  // It has just ended.
}

std::string name_of(const std::filesystem::path& thread) {
  std::ifstream file(thread / "comm");
  std::string name;
  std::getline(file, name);
  return name;
}

bool others_block_all() {
  bool all = true;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == std::to_string(gettid())) continue;
    const std::uint64_t blocked = blocked_by(thread.path());
    std::string missing;
    for (const int signal : kAwaitable)
      if ((blocked >> (signal - 1) & 1) == 0) missing += ' ' + std::to_string(signal);
    if (missing.empty()) continue;
    std::cout << "thread " << name_of(thread.path()) << " does not block" << missing << '\n';
    all = false;
  }
  return all;
}

bool waits_for_signal() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  kill(getpid(), SIGUSR1);  // Ends the process if a thread of the library takes it.
  const timespec limit{.tv_sec = 5, .tv_nsec = 0};
  return sigtimedwait(&wanted, nullptr, &limit) == SIGUSR1;
}

bool reads_signal() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  const int fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  kill(getpid(), SIGTERM);
  const bool came = raw::is_readable(fd, std::chrono::seconds{5});
  ::close(fd);
  return came;
}

void expect_child_succeeds(const std::string& part) {
  LinkListener listener;
  Child child = start_child({"signals", std::to_string(listener.port()), part});
  {
    Link link = listener.accept();
    const Session session = join(link);
    link.wait_for_end();
  }
  const ChildResult result = run_to_end(std::move(child));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(Signals, AreBlockedInEveryThreadOfTheLibrary) { expect_child_succeeds("masks"); }
TEST(Signals, ReachAThreadThatWaitsForThem) { expect_child_succeeds("wait"); }
TEST(Signals, ReachADescriptorThatIsReadForThem) { expect_child_succeeds("descriptor"); }

}  // namespace

int play_signals(std::uint16_t port, const std::string& part) {
  Link link = Link::connect(port);
  Session session = join(link);
  session.side.post(Send{}, 1);  // No receive there: a thread has to retry.
  if (part == "masks") return others_block_all() ? 0 : 1;
  return (part == "wait" ? waits_for_signal() : reads_signal()) ? 0 : 1;
}

}  // namespace verbatim::test
