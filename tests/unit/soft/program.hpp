// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file This program again, in another environment: it opens soft0 and reports the result.
///
/// The software device reads its environment when a process starts, and cleans up when it ends, so
/// testing either takes a whole process.
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace verbatim::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

class Program {
 public:
  /// Starts the program, and returns when it has tried to open the device.
  explicit Program(const Environment& environment);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// "opened", or the error: its code, to_string() and explain() of it.
  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  /// Lets the program return from main(). Returns how it ended, as waitpid() reports it.
  int end();

 private:
  pid_t pid_ = 0;
  int socket_ = -1;  ///< Its standard input and output.
  std::string line_;
};

/// The part that the program plays.
[[nodiscard]] int play_program();
/// The argument that selects it.
inline constexpr const char* kPlayProgram = "--open-and-wait";

}  // namespace verbatim::test
