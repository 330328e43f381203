// SPDX-License-Identifier: MIT OR Apache-2.0
#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace verbatim::cli {
namespace {

bool wants_colour() noexcept {
  const char* const none = std::getenv("NO_COLOR");
  const char* const kind = std::getenv("TERM");
  if (none != nullptr && *none != '\0') return false;
  return kind != nullptr && *kind != '\0' && std::string_view{kind} != "dumb";
}

struct winsize size_of(int fd) noexcept {
  struct winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

constexpr std::array<std::string_view, 6> kCodes = {"",         "\x1b[1m",  "\x1b[2m",
                                                    "\x1b[32m", "\x1b[33m", "\x1b[31m"};

}  // namespace

Terminal::Terminal(int fd) noexcept
    : fd_(fd), is_live_(isatty(fd) == 1), has_colour_(is_live_ && wants_colour()) {}

unsigned Terminal::columns() const noexcept {
  const unsigned asked = size_of(fd_).ws_col;
  return asked == 0 ? 80 : asked;
}

unsigned Terminal::rows() const noexcept {
  const unsigned asked = size_of(fd_).ws_row;
  return asked == 0 ? 24 : asked;
}

std::string Terminal::paint(Style style, std::string_view text) const {
  const std::string_view code = kCodes.at(static_cast<std::size_t>(style));
  if (!has_colour_ || code.empty()) return std::string{text};
  return std::string{code}.append(text).append("\x1b[0m");
}

}  // namespace verbatim::cli
