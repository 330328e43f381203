// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file JSON objects on a stream connection, one in a line: how two ends of this program talk.
///
/// Every wait has a deadline. A peer may send anything: a line that is too long, cut off or not
/// JSON is an error.
///
/// Ownership: move-only; closes its socket. Threads: one at a time.
#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "channel/private_descriptor.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::cli {

class RecordStream {
 public:
  using Clock = std::chrono::steady_clock;
  using Cancelled = bool (*)() noexcept;
  static constexpr std::size_t kMaxLineBytes = 128 << 10;

  /// A connected stream socket. Waits end when `is_cancelled` says so; nullptr: never.
  explicit RecordStream(detail::PrivateDescriptor socket,
                        Cancelled is_cancelled = nullptr) noexcept;

  /// `closed` if the peer went away, `timed_out`, `cancelled`, `malformed` if the line is not a
  /// JSON object, `limit_exceeded` if it is too long.
  [[nodiscard]] Result<nlohmann::json> read(Clock::time_point deadline);
  [[nodiscard]] Result<void> write(const nlohmann::json& object, Clock::time_point deadline);
  /// Whether read() has something to do: bytes, or the peer's end. At most one system call.
  [[nodiscard]] bool is_readable() const noexcept;
  /// Waits until is_readable(): true if the peer has closed the connection and nothing is left.
  [[nodiscard]] Result<bool> has_ended(Clock::time_point deadline) const;

 private:
  [[nodiscard]] Result<void> wait(short events, Clock::time_point deadline) const;

  detail::PrivateDescriptor socket_;
  Cancelled is_cancelled_;
  std::string buffered_{};
};

}  // namespace verbatim::cli
