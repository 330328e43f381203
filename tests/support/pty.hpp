// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A program in a terminal of its own, as somebody sits in front of it: what the screen
/// shows, keys, a new size. It ends with the object, and every wait for it has a limit.
///
/// The terminal knows what the live views use: moving to a place, clearing, colours, and a second
/// screen that goes when the program is done with it.
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::test {

class PseudoTerminal {
 public:
  static constexpr std::chrono::seconds kLimit{30};

  struct Size {
    unsigned short rows = 24;
    unsigned short columns = 80;
  };

  /// `variables` ("NAME=value") are on top of ours; TERM is xterm.
  PseudoTerminal(std::vector<std::string> words, const std::vector<std::string>& variables,
                 Size size);
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal();

  /// Until a line of the screen contains `text`; false if the program ends or is late.
  [[nodiscard]] bool shows(std::string_view text);
  /// Until no line does.
  [[nodiscard]] bool stops_showing(std::string_view text);
  /// As it is now, a line for each row, without blanks at their ends.
  [[nodiscard]] std::string screen() const;
  /// All that came, with the codes for the terminal.
  [[nodiscard]] const std::string& raw() const noexcept { return raw_; }
  void press(std::string_view keys);
  void resize(Size size);
  /// Until it is over: its status as a shell has it, or -1 when it had to be killed.
  [[nodiscard]] int finish();

 private:
  [[nodiscard]] bool is_seen(std::string_view text) const;
  /// Reads once; false when it is over, or late.
  bool read_some();
  void take(char each);
  void put(char each);
  void obey(std::string_view sequence);
  void clear(std::vector<std::string>& grid) const;

  pid_t pid_ = -1;
  int fd_ = -1;
  Size size_;
  std::chrono::steady_clock::time_point deadline_;
  std::string raw_;
  std::string sequence_;  ///< One that has begun: ESC [ ...
  std::vector<std::string> grid_;
  std::vector<std::string> first_;  ///< The other screen, while a program has the second.
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

}  // namespace verbatim::test
