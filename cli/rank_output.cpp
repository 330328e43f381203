// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rank_output.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace verbatim::cli {

RankOutput::RankOutput(RankOutput&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      prefix_(std::move(other.prefix_)),
      begun_(std::move(other.begun_)) {}

RankOutput& RankOutput::operator=(RankOutput&& other) noexcept {
  std::swap(fd_, other.fd_);
  prefix_.swap(other.prefix_);
  begun_.swap(other.begun_);
  return *this;
}

RankOutput::~RankOutput() {
  if (fd_ >= 0) ::close(fd_);
}

bool RankOutput::read(std::string& lines) {
  if (fd_ < 0) return false;
  char block[16384];
  const ssize_t got = ::read(fd_, block, sizeof block);
  if (got > 0) {
    take({block, static_cast<std::size_t>(got)}, lines);
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  finish(lines);
  return false;
}

void RankOutput::finish(std::string& lines) {
  if (!begun_.empty()) take("\n", lines);
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void RankOutput::take(std::string_view bytes, std::string& lines) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool is_whole = end != std::string_view::npos;
    begun_ += bytes.substr(0, end);
    bytes.remove_prefix(is_whole ? end + 1 : bytes.size());
    if (!is_whole && begun_.size() < kLongestLine) return;
    ((lines += prefix_) += begun_) += '\n';
    begun_.clear();
  }
}

}  // namespace verbatim::cli
