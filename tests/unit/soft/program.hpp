// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file This program again, in an environment of its own: it opens soft0 and says what came of it.
///
/// The software device reads its environment when a process starts, and cleans up when it ends; so
/// both take a whole process.
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace verbatim::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

class Program {
 public:
  /// Starts it, and returns when it has tried to open the device.
  explicit Program(const Environment& environment);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// "opened", or the error: its code, to_string() and explain() of it.
  [[nodiscard]] const std::string& line() const noexcept { return line_; }
  /// Lets it end as programs do: it returns from main(). How it ended, as waitpid() tells.
  int end();

 private:
  pid_t pid_ = 0;
  int socket_ = -1;  ///< Its standard input and output.
  std::string line_;
};

/// The program's part.
[[nodiscard]] int play_program();
/// The argument that asks for it.
inline constexpr const char* kPlayProgram = "--open-and-wait";

}  // namespace verbatim::test
