// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A whole terminal, drawn over again and again, and given back as it was.
///
/// Ownership: the terminal's modes, from construction to destruction. One at a time.
#include <termios.h>

#include <chrono>
#include <string>
#include <vector>

#include "terminal.hpp"

namespace verbatim::cli {

class LiveScreen {
 public:
  /// Both stdin and stdout are a terminal.
  LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;
  ~LiveScreen();

  /// The first line is bold. What does not fit is cut.
  void draw(const std::vector<std::string>& lines);
  /// The next key; 0 when the time is over, or a signal came (such as a new size).
  [[nodiscard]] char key_within(std::chrono::milliseconds limit);
  [[nodiscard]] const Terminal& terminal() const noexcept { return terminal_; }

 private:
  Terminal terminal_;
  struct termios before_{};
};

}  // namespace verbatim::cli
