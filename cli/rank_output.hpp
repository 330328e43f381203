// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a rank writes to one of its streams, as whole lines, each with the rank before it.
#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::cli {

/// The reading end of a pipe. Move-only; closes it.
class RankOutput {
 public:
  /// A longer line is cut: a program that never ends a line must not exhaust memory.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  RankOutput() noexcept = default;
  /// `fd` is non-blocking; this object takes ownership of it.
  RankOutput(int fd, std::uint32_t rank) : fd_(fd), prefix_('[' + std::to_string(rank) + "] ") {}
  RankOutput(RankOutput&& other) noexcept;
  RankOutput& operator=(RankOutput&& other) noexcept;
  ~RankOutput();

  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// Reads once, and appends the complete lines to `lines`. At the end of the stream it closes the
  /// stream, and appends what is left as a line. False: there was nothing to read.
  bool read(std::string& lines);
  /// Appends what is left as a line; the program that wrote it is gone.
  void finish(std::string& lines);

 private:
  void take(std::string_view bytes, std::string& lines);

  int fd_ = -1;
  std::string prefix_;
  std::string begun_;  ///< An unfinished line.
};

}  // namespace verbatim::cli
