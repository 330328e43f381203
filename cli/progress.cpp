// SPDX-License-Identifier: MIT OR Apache-2.0
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace verbatim::cli {

Progress::Progress(bool is_wanted) noexcept
    : terminal_(STDERR_FILENO), is_live_(is_wanted && terminal_.is_live()) {}

void Progress::show(std::string_view what, double part) {
  if (!is_live_) return;
  constexpr std::size_t kSteps = 20;
  const auto done = static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * kSteps);
  const std::string bar = std::string(done, '#') + std::string(kSteps - done, '.');
  const std::string line = fmt::format("[{}] {}", bar, what).substr(0, terminal_.columns() - 1);
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  is_shown_ = true;
}

void Progress::clear() {
  if (!is_shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  is_shown_ = false;
}

}  // namespace verbatim::cli
