// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/pty.hpp"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace verbatim::test {
namespace {

struct winsize size_for(PseudoTerminal::Size size) {
  struct winsize result{};
  result.ws_row = size.rows;
  result.ws_col = size.columns;
  return result;
}

}  // namespace

PseudoTerminal::PseudoTerminal(std::vector<std::string> words,
                               const std::vector<std::string>& variables, Size size)
    : size_(size), deadline_(std::chrono::steady_clock::now() + kLimit) {
  clear(grid_);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const struct winsize asked = size_for(size);
  pid_ = forkpty(&fd_, nullptr, nullptr, &asked);
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  for (const std::string& each : variables)
    setenv(each.substr(0, each.find('=')).c_str(), each.substr(each.find('=') + 1).c_str(), 1);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

PseudoTerminal::~PseudoTerminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (fd_ >= 0) close(fd_);
}

void PseudoTerminal::clear(std::vector<std::string>& grid) const {
  grid.assign(size_.rows, std::string(size_.columns, ' '));
}

bool PseudoTerminal::read_some() {
  if (fd_ < 0) return false;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
  if (left.count() <= 0 || poll(&one, 1, static_cast<int>(left.count())) <= 0) return false;
  char block[4096];
  const ssize_t got = read(fd_, block, sizeof block);
  if (got <= 0) return false;  // EIO: nobody has the other end open.
  for (const char each : std::string_view{block, static_cast<std::size_t>(got)}) take(each);
  return true;
}

void PseudoTerminal::take(char each) {
  raw_ += each;
  if (!sequence_.empty() || each == '\x1b') {
    sequence_ += each;
    const bool is_over =
        sequence_.size() > 2 ? (each >= '@' && each <= '~') : sequence_.size() == 2 && each != '[';
    if (is_over) obey(std::exchange(sequence_, {}));
    return;
  }
  switch (each) {
    case '\r': column_ = 0; break;
    case '\n':
      if (row_ + 1 < grid_.size()) {
        ++row_;
      } else {
        grid_.erase(grid_.begin());
        grid_.emplace_back(size_.columns, ' ');
      }
      break;
    case '\a': break;
    case '\b': column_ = column_ > 0 ? column_ - 1 : 0; break;
    default: put(each);
  }
}

void PseudoTerminal::put(char each) {
  if ((each & 0xC0) == 0x80) return;  // The rest of a character that is already shown.
  if (column_ < size_.columns) grid_[row_][column_++] = (each & 0x80) != 0 ? '*' : each;
}

void PseudoTerminal::obey(std::string_view sequence) {
  const std::string_view parameters = sequence.substr(2, sequence.size() - 3);
  switch (sequence.back()) {
    case 'H': row_ = column_ = 0; break;  // Only home is used.
    case 'K': grid_[row_].replace(column_, std::string::npos, size_.columns - column_, ' '); break;
    case 'J':
      grid_[row_].replace(column_, std::string::npos, size_.columns - column_, ' ');
      for (std::size_t row = row_ + 1; row < grid_.size(); ++row)
        grid_[row].assign(size_.columns, ' ');
      break;
    case 'h':
      if (parameters != "?1049") break;
      first_ = grid_;
      clear(grid_);
      break;
    case 'l':
      if (parameters == "?1049") grid_ = std::exchange(first_, {});
      break;
    default: break;  // Colours.
  }
}

std::string PseudoTerminal::screen() const {
  std::string all;
  for (const std::string& line : grid_) {
    const auto last = line.find_last_not_of(' ');
    all += line.substr(0, last == std::string::npos ? 0 : last + 1) + '\n';
  }
  return all;
}

bool PseudoTerminal::is_seen(std::string_view text) const {
  return std::ranges::any_of(
      grid_, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

bool PseudoTerminal::shows(std::string_view text) {
  while (!is_seen(text))
    if (!read_some()) return false;
  return true;
}

bool PseudoTerminal::stops_showing(std::string_view text) {
  while (is_seen(text))
    if (!read_some()) return false;
  return true;
}

void PseudoTerminal::press(std::string_view keys) {
  static_cast<void>(!write(fd_, keys.data(), keys.size()));
}

void PseudoTerminal::resize(Size size) {
  size_ = size;
  for (std::string& line : grid_) line.resize(size.columns, ' ');
  grid_.resize(size.rows, std::string(size.columns, ' '));
  row_ = std::min<std::size_t>(row_, size.rows - 1u);
  column_ = std::min<std::size_t>(column_, size.columns - 1u);
  const struct winsize asked = size_for(size);
  ioctl(fd_, TIOCSWINSZ, &asked);
}

int PseudoTerminal::finish() {
  while (read_some()) {
  }
  if (std::chrono::steady_clock::now() >= deadline_) kill(pid_, SIGKILL);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  if (std::chrono::steady_clock::now() >= deadline_) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace verbatim::test
