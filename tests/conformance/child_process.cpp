// SPDX-License-Identifier: MIT OR Apache-2.0
#include "conformance/child_process.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string_view>
#include <utility>

#include "conformance/channel_peer.hpp"
#include "conformance/peer_session.hpp"
#include "conformance/raw_peer.hpp"
#include "conformance/rendezvous_peer.hpp"
#include "conformance/signals_peer.hpp"
#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim::test {

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), output_(std::exchange(other.output_, -1)) {}

Child::~Child() {
  kill();
  if (output_ >= 0) ::close(output_);
}

void Child::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

Child start_child(std::vector<std::string> role) {
  std::vector<std::string> words{
      settings().program, "--device", settings().device, "--seed", std::to_string(settings().seed),
      "--child"};
  words.insert(words.end(), std::make_move_iterator(role.begin()),
               std::make_move_iterator(role.end()));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) give_up("pipe2 failed", Where::current());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDERR_FILENO);
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(output[1]);
  if (failed != 0) {
    ::close(output[0]);
    give_up("posix_spawn failed", Where::current());
  }
  return {pid, output[0]};
}

ChildResult run_to_end(Child child) {
  // The pipe ends when the child does. What the child prints fits into the pipe or is read here.
  std::string printed;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd entry{.fd = child.output_, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || poll(&entry, 1, static_cast<int>(left.count())) <= 0) {
      child.kill();
      return {128 + SIGKILL, printed + "the child process did not end in time"};
    }
    char text[4096];
    const ssize_t count = read(child.output_, text, sizeof text);
    if (count <= 0) break;
    printed.append(text, static_cast<std::size_t>(count));
  }
  int status = 0;
  waitpid(std::exchange(child.pid_, 0), &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), std::move(printed)};
}

namespace {

/// The limit does not apply to a process with this capability.
bool drop_lock_capability() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
  return syscall(SYS_capset, &header, sets) == 0;
}

int exceed_memlock() {
  constexpr std::size_t kLimit = 64 << 10;
  constexpr std::size_t kWanted = 4 << 20;
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const rlimit limit{kLimit, kLimit};
  if (!drop_lock_capability() || setrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    std::cout << "cannot lower the memlock limit of a process here\n";
    return kChildCannot;
  }
  const auto result = domain.allocate(kWanted);
  if (result) {
    std::cout << "this device does not pin memory: no limit binds a registration\n";
    return kChildCannot;
  }
  const Error& error = result.error();
  const std::string causes = explain(error);
  std::cout << causes << '\n';
  const bool clear = error == Errc::out_of_resources && error.value == kWanted &&
                     error.limit == kLimit && causes.find("memlock") != std::string::npos;
  return clear ? 0 : 1;
}

}  // namespace

int run_child(const std::vector<std::string>& role) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // We must not outlive a parent that crashed.
  try {
    if (role[0] == "memlock") return exceed_memlock();
    if (role[0] == "peer" && role.size() == 3)
      return play_peer(static_cast<std::uint16_t>(std::stoul(role[1])), role[2]);
    if (role[0] == "channel_peer" && role.size() == 3)
      return play_channel_peer(static_cast<std::uint16_t>(std::stoul(role[1])), role[2]);
    if (role[0] == "raw_peer" && role.size() == 4)
      return play_raw_peer(static_cast<std::uint16_t>(std::stoul(role[1])), role[2], role[3]);
    if (role[0] == "signals" && role.size() == 3)
      return play_signals(static_cast<std::uint16_t>(std::stoul(role[1])), role[2]);
    if (role[0] == "dialler" && role.size() == 2) return play_dialler(role[1]);
    if (role[0] == "visitor" && role.size() == 3) return play_visitor(role[1], role[2]);
    std::cout << "no such role: " << role[0] << '\n';
  } catch (const std::exception& failure) {
    std::cout << "child: " << failure.what() << '\n';
  }
  return 1;
}

}  // namespace verbatim::test
