// SPDX-License-Identifier: MIT OR Apache-2.0
#include "unit/soft/program.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "support/require.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {

namespace {

/// The environment of this process, with `changes`.
std::vector<std::string> changed(const Environment& changes) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const auto name = entry.substr(0, entry.find('='));
    if (std::ranges::none_of(changes, [&](const auto& change) { return change.first == name; }))
      all.emplace_back(entry);
  }
  for (const auto& [name, value] : changes) all.push_back(name + '=' + value);
  return all;
}

}  // namespace

Program::Program(const Environment& environment) {
  std::vector<std::string> entries = changed(environment);
  std::vector<char*> variables;
  for (std::string& each : entries) variables.push_back(each.data());
  variables.push_back(nullptr);
  std::string name = "soft_tests";
  std::string role = kPlayProgram;
  char* arguments[] = {name.data(), role.data(), nullptr};

  int ends[2];
  const auto here = std::source_location::current();
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) give_up("socketpair", here);
  socket_ = ends[0];
  const timeval limit{.tv_sec = 30, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int failed =
      posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) give_up("posix_spawn", here);
  char letter = 0;
  while (read(socket_, &letter, 1) == 1 && letter != '\n') line_ += letter;
}

Program::~Program() {
  if (pid_ != 0) end();
  ::close(socket_);
}

int Program::end() {
  shutdown(socket_, SHUT_WR);
  char rest = 0;
  ssize_t count = 1;
  while (count == 1) count = read(socket_, &rest, 1);
  if (count < 0) kill(pid_, SIGKILL);  // Its time is over.
  int status = -1;
  waitpid(std::exchange(pid_, 0), &status, 0);
  return status;
}

int play_program() {
  const auto context = open_device(std::string_view{"soft0"});
  std::string line = "opened";
  if (!context)
    line = std::string{to_string(context.error().code)} + " | " + to_string(context.error()) +
           " | " + explain(context.error());
  std::ranges::replace(line, '\n', ' ');
  std::cout << line << '\n' << std::flush;
  char nothing = 0;
  while (read(STDIN_FILENO, &nothing, 1) == 1) {
  }
  return 0;
}

}  // namespace verbatim::test
