// SPDX-License-Identifier: MIT OR Apache-2.0
#include "live_screen.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace verbatim::cli {
namespace {

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

extern "C" void on_new_size(int) {}  // It ends the wait for a key.

}  // namespace

LiveScreen::LiveScreen() : terminal_(STDOUT_FILENO) {
  tcgetattr(STDIN_FILENO, &before_);
  struct termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  struct sigaction action{};
  action.sa_handler = on_new_size;
  sigaction(SIGWINCH, &action, nullptr);
  put("\x1b[?1049h\x1b[?25l");
}

LiveScreen::~LiveScreen() {
  put("\x1b[?25h\x1b[?1049l");
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void LiveScreen::draw(const std::vector<std::string>& lines) {
  const std::size_t rows = std::min<std::size_t>(lines.size(), terminal_.rows());
  std::string all = "\x1b[H";
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string line = lines[row].substr(0, terminal_.columns());
    all += terminal_.paint(row == 0 ? Style::bold : Style::plain, line) + "\x1b[K";
    if (row + 1 < rows) all += "\r\n";
  }
  put(all + "\x1b[J");
}

char LiveScreen::key_within(std::chrono::milliseconds limit) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  char key = 0;
  if (poll(&input, 1, static_cast<int>(std::max<std::int64_t>(0, limit.count()))) <= 0) return 0;
  if (read(STDIN_FILENO, &key, 1) == 1) return key;
  return 'q';  // Nobody is there any more.
}

}  // namespace verbatim::cli
