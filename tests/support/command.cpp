// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace verbatim::test {
namespace {

std::vector<std::string> environment(const std::vector<std::string>& variables) {
  std::vector<std::string> result;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable{*each};
    const auto name = variable.substr(0, variable.find('='));
    const bool is_foreign = !name.starts_with("VERBATIM_") && !name.starts_with("PMIX_");
    const bool is_replaced = std::ranges::any_of(variables, [&](const std::string& other) {
      return std::string_view{other}.substr(0, other.find('=')) == name;
    });
    if (is_foreign && !is_replaced) result.emplace_back(variable);
  }
  for (const std::string& each : variables)
    if (each.find('=') != std::string::npos) result.push_back(each);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

bool read_into(int& fd, std::string& text) {
  char block[65536];
  const ssize_t got = read(fd, block, sizeof block);
  if (got <= 0) {
    close(std::exchange(fd, -1));
    return false;
  }
  text.append(block, static_cast<std::size_t>(got));
  return true;
}

std::size_t count_lines(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) count += line.find(part) != std::string::npos;
  return count;
}

}  // namespace

Command::Command(std::vector<std::string> words, const std::vector<std::string>& variables)
    : deadline_(std::chrono::steady_clock::now() + kLimit) {
  auto changed = environment(variables);
  const auto arguments = pointers(words);
  const auto values = pointers(changed);
  int output[2];
  int errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    execvpe(arguments[0], arguments.data(), values.data());
    _exit(127);
  }
  close(output[1]);
  close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

Command::~Command() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {output_, errors_})
    if (fd >= 0) close(fd);
}

void Command::signal(int number) const { kill(pid_, number); }

bool Command::read_some() {
  if (output_ < 0 && errors_ < 0) return false;
  pollfd both[] = {{.fd = output_, .events = POLLIN, .revents = 0},
                   {.fd = errors_, .events = POLLIN, .revents = 0}};
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0 || poll(both, 2, static_cast<int>(left.count())) <= 0) return false;
  if (both[0].revents != 0) static_cast<void>(read_into(output_, outcome_.output));
  if (both[1].revents != 0) static_cast<void>(read_into(errors_, outcome_.errors));
  return true;
}

bool Command::prints(const std::string& text, std::size_t lines) {
  while (count_lines(outcome_.output, text) < lines)
    if (!read_some()) return false;
  return true;
}

void Command::stop_reading() { close(std::exchange(output_, -1)); }

Command::Outcome Command::finish() {
  while (read_some()) {
  }
  const bool is_late = output_ >= 0 || errors_ >= 0;
  if (is_late) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  if (!is_late) outcome_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return std::move(outcome_);
}

Command::Outcome run_command(std::vector<std::string> words,
                             const std::vector<std::string>& variables) {
  return Command{std::move(words), variables}.finish();
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) result.push_back(line);
  std::ranges::sort(result);
  return result;
}

}  // namespace verbatim::test
