// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file JSON objects on a stream connection, one in a line. Every wait has a deadline, and nothing
/// that comes is trusted to be short, complete or JSON.
///
/// Threads: one at a time.
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "channel/private_descriptor.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::cli {

class LineStream {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxLineBytes = 128 << 10;

  /// A connected non-blocking socket.
  explicit LineStream(detail::PrivateDescriptor socket) noexcept : socket_(std::move(socket)) {}

  /// `closed` if the peer went away, `timed_out`, `malformed` if it is no JSON object, and
  /// `limit_exceeded` if it is too long.
  [[nodiscard]] Result<nlohmann::json> read(Clock::time_point deadline);
  [[nodiscard]] Result<void> write(const nlohmann::json& object, Clock::time_point deadline);
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  detail::PrivateDescriptor socket_;
  std::string buffered_{};
};

}  // namespace verbatim::cli
