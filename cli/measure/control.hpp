// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The connection over which two ends agree: JSON records on a stream socket.
///
/// A record is its length, 4 bytes in network order, and a JSON object. Nothing that the peer sends
/// is trusted, and no call waits longer than its limit. What goes wrong is a Failure.
///
/// Ownership: move-only; closes its socket. Threads: one.
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "channel/private_descriptor.hpp"

namespace verbatim::cli {

inline constexpr std::uint16_t kDefaultPort = 18518;

class Control {
 public:
  using Limit = std::chrono::nanoseconds;
  /// A record with more is refused unread.
  static constexpr std::uint32_t kMostBytes = 1u << 16;

  /// Takes a connected stream socket, and makes it non-blocking.
  explicit Control(verbatim::detail::PrivateDescriptor socket);

  void send(const nlohmann::json& record, Limit limit);
  /// A record with "error" in it is a Failure that quotes it.
  [[nodiscard]] nlohmann::json receive(Limit limit);
  /// Whether a record, or the peer's end, waits. One system call.
  [[nodiscard]] bool is_readable() const noexcept;
  /// Waits until there is a record, or the peer has closed the connection: then true.
  [[nodiscard]] bool has_ended(Limit limit);
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  void read_all(char* to, std::size_t size, std::chrono::steady_clock::time_point deadline);

  verbatim::detail::PrivateDescriptor socket_;
};

/// A connection to who listens at `address`; tries again until the limit.
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
