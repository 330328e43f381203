// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The conversation of two ends that measure: a RecordStream whose errors are exceptions.
///
/// Each wait has a limit, and ends at Ctrl-C with Interrupted. Anything else is a Failure.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "channel/private_descriptor.hpp"
#include "record_stream.hpp"

namespace verbatim::cli {

inline constexpr std::uint16_t kDefaultPort = 18518;

class Control {
 public:
  using Limit = std::chrono::nanoseconds;

  /// Takes a connected stream socket.
  explicit Control(verbatim::detail::PrivateDescriptor socket) noexcept;

  void send(const nlohmann::json& record, Limit limit);
  /// A record with "error" in it is a Failure that quotes it.
  [[nodiscard]] nlohmann::json receive(Limit limit);
  /// Whether a record, or the peer's end, waits. At most one system call.
  [[nodiscard]] bool is_readable() const noexcept { return stream_.is_readable(); }
  /// Waits until there is a record, or the peer has closed the connection: then true.
  [[nodiscard]] bool has_ended(Limit limit) const;

 private:
  RecordStream stream_;
};

/// Connects to the end that listens at `address`; tries again until the limit.
[[nodiscard]] Control connect_to(const std::string& address, Control::Limit limit);

class ControlListener {
 public:
  explicit ControlListener(const std::string& address);
  /// Numeric, with the port that it really has.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// The next client; nothing if none came within the limit, or a signal did.
  [[nodiscard]] std::optional<Control> accept(Control::Limit limit);

 private:
  verbatim::detail::PrivateDescriptor socket_;
  std::string address_;
};

}  // namespace verbatim::cli
