// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A program in a separate terminal, as a user sees it: what the screen shows, keys, a new
/// size. It ends with the object, and every wait for it has a limit.
///
/// The terminal knows what the live views use: moving the cursor, clearing, colours, and a second
/// screen that disappears when the program leaves it.
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::test {

class PseudoTerminal {
 public:
  /// Much more than any program needs: only one that hangs is ended.
  static constexpr std::chrono::seconds kLimit{120};

  struct Size {
    unsigned short rows = 24;
    unsigned short columns = 80;
  };

  /// `variables` ("NAME=value") are added to ours; TERM is xterm.
  PseudoTerminal(std::vector<std::string> words, const std::vector<std::string>& variables,
                 Size size);
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal();

  /// Waits until a line of the screen contains `text`; false if the program ends or is late.
  [[nodiscard]] bool shows(std::string_view text);
  /// Waits until no line contains it.
  [[nodiscard]] bool stops_showing(std::string_view text);
  /// The present screen, one line for each row, without trailing blanks.
  [[nodiscard]] std::string screen() const;
  /// All output, with the codes for the terminal.
  [[nodiscard]] const std::string& raw() const noexcept { return raw_; }
  void press(std::string_view keys);
  void resize(Size size);
  /// Waits until the program ends. Returns its status as a shell does, or -1 if it had to be
  /// killed.
  [[nodiscard]] int finish();

 private:
  [[nodiscard]] bool is_seen(std::string_view text) const;
  /// Reads once; false if the program is over, or late.
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
  std::string sequence_;  ///< An unfinished sequence: ESC [ ...
  std::vector<std::string> grid_;
  std::vector<std::string> first_;  ///< The first screen, while a program uses the second.
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

}  // namespace verbatim::test
