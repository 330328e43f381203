// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A program that a test runs, with its whole output. It ends with the object, and every wait
/// for it has a limit.
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace verbatim::test {

class Command {
 public:
  /// Much more than any program needs: only one that hangs is ended.
  static constexpr std::chrono::seconds kLimit{180};

  struct Outcome {
    int status = -1;  ///< As in a shell: 128 plus the signal. -1: it had to be killed.
    std::string output;
    std::string errors;
  };

  /// Starts the program in a new session. `variables` ("NAME=value", or "NAME" to remove it) are
  /// added to our environment, from which those of Verbatim and of a launcher are removed.
  explicit Command(std::vector<std::string> words, const std::vector<std::string>& variables = {});
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  /// What it has printed so far, as far as prints() has read.
  [[nodiscard]] const std::string& output() const noexcept { return outcome_.output; }
  /// Waits until the output has this many lines that contain `text`; false if the program ends or
  /// is late.
  [[nodiscard]] bool prints(const std::string& text, std::size_t lines = 1);
  /// Closes the reading end of its standard output.
  void stop_reading();
  /// Waits until the program has ended and nobody has its output open.
  [[nodiscard]] Outcome finish();

 private:
  [[nodiscard]] bool read_some();

  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  std::chrono::steady_clock::time_point deadline_;
  Outcome outcome_;
};

/// Starts and finishes.
[[nodiscard]] Command::Outcome run_command(std::vector<std::string> words,
                                           const std::vector<std::string>& variables = {});

/// The lines of a text, sorted, for programs that run side by side.
[[nodiscard]] std::vector<std::string> sorted_lines(const std::string& text);

}  // namespace verbatim::test
