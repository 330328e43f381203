// SPDX-License-Identifier: MIT OR Apache-2.0
#include "survival/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

constexpr int kSafeFd = 100;  // Above all that a child's descriptors are moved to.

[[noreturn]] void failed(const char* what) { give_up(what, Where::current()); }

}  // namespace

std::pair<int, int> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) failed("socketpair");
  const timeval limit{.tv_sec = kPatience.count(), .tv_usec = 0};
  for (int& end : ends) {
    const int moved = fcntl(end, F_DUPFD_CLOEXEC, kSafeFd);
    ::close(end);
    end = moved;
    if (setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) failed("setsockopt");
  }
  return {ends[0], ends[1]};
}

void Control::say(char word) const {
  // A process that is gone hears nothing. The wait for an answer notices that.
  static_cast<void>(send(fd_, &word, 1, MSG_NOSIGNAL));
}

char Control::hear(std::chrono::milliseconds patience) const {
  pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, static_cast<int>(patience.count())) <= 0) failed("nothing was said in time");
  char word = 0;
  if (recv(fd_, &word, 1, 0) != 1) failed("the other process is gone");
  return word;
}

std::optional<char> Control::overhear() const {
  char word = 0;
  const ssize_t count = recv(fd_, &word, 1, MSG_DONTWAIT);
  if (count == 0) failed("the other process is gone");
  return count == 1 ? std::optional{word} : std::nullopt;
}

Process Process::start(std::vector<std::string> role, std::vector<int> links) {
  role.insert(role.begin(), {settings().program, "--role"});
  std::vector<char*> arguments;
  for (std::string& word : role) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto [ours, theirs] = socket_pair();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs, kControlFd);
  for (std::size_t i = 0; i < links.size(); ++i)
    posix_spawn_file_actions_adddup2(&actions, links[i], kFirstLinkFd + static_cast<int>(i));
  pid_t pid = 0;
  const int wrong =
      posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(theirs);
  for (const int link : links) ::close(link);
  if (wrong != 0) failed("posix_spawn");
  return {pid, ours};
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      control_(other.control_) {}

Process::~Process() {
  kill();
  if (fd_ >= 0) ::close(fd_);
}

void Process::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, 0), nullptr, 0);
}

void Process::wait_until_stopped() const {
  int status = 0;
  if (!eventually([&] { return waitpid(pid_, &status, WUNTRACED | WNOHANG) == pid_; }) ||
      !WIFSTOPPED(status))
    failed("the process did not stop");
}

void Process::resume() const { ::kill(pid_, SIGCONT); }

std::optional<int> Process::poll_end() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return {};
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Process::wait_for_end() {
  std::optional<int> status;
  if (!eventually([&] { return (status = poll_end()).has_value(); })) {
    kill();
    failed("the process did not end in time");
  }
  return *status;
}

pid_t helper_of(pid_t process) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& each : std::filesystem::directory_iterator{tasks}) {
    std::ifstream file{each.path() / "comm"};
    std::string name;
    std::getline(file, name);
    if (name == "verbatim-soft") return std::stoi(each.path().filename());
  }
  return 0;
}

SoftDirectory::SoftDirectory(const std::string& parent) {
  static std::atomic<unsigned> made{0};
  const bool has_shm = std::filesystem::is_directory("/dev/shm");
  path_ = (!parent.empty() ? parent
           : has_shm       ? "/dev/shm"
                           : "/tmp") +
          "/verbatim-test-" + std::to_string(getpid()) + "-" + std::to_string(++made);
  std::error_code ignored;  // A killed process may have left it whose id was the same.
  std::filesystem::remove_all(path_, ignored);
  setenv("VERBATIM_SOFT_DIR", path_.c_str(), 1);
}

SoftDirectory::~SoftDirectory() {
  unsetenv("VERBATIM_SOFT_DIR");
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool SoftDirectory::is_gone() const { return !std::filesystem::exists(path_); }

int play_role(const std::vector<std::string>& words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // We must not outlive a test that crashed.
  try {
    if (const Role::Play play = Role::find(words.at(0))) return play(words);
    std::cerr << "no such role: " << words[0] << '\n';
  } catch (const std::exception& failure) {
    std::cerr << "role " << words[0] << " (" << getpid() << "): " << failure.what() << '\n';
  }
  return 1;
}

}  // namespace verbatim::test
