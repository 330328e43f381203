// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The stream connection beside a channel: how each side learns that the other has ended.
///
/// However a process ends, its connections end with it: the kernel tells the peer within a round
/// trip. A host that vanishes is noticed after kSilence. exec() closes the connection, and so do
/// forked children, because an open copy would hide this process's end.
///
/// Threads: one at a time.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "channel/frame.hpp"
#include "channel/private_descriptor.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

enum class LinkState : std::uint8_t {
  none,      ///< There is no connection, or it belongs to the parent process.
  open,      ///< The peer is there.
  leaving,   ///< The peer said that it is done, and is still there.
  finished,  ///< The peer said that it is done, and has gone.
  lost,      ///< The connection ended without "done", or broke: see Link::cause().
};
[[nodiscard]] std::string_view to_string(LinkState state) noexcept;

class Link {
 public:
  /// If the peer's host does not acknowledge bytes, or answer probes, for this long, the connection
  /// ends.
  static constexpr std::chrono::seconds kSilence{10};

  Link() noexcept = default;
  /// A connected non-blocking stream socket.
  explicit Link(PrivateDescriptor socket) noexcept;

  /// The present state. Never waits: one system call while the state is `open` or `leaving`, none
  /// from then on.
  [[nodiscard]] LinkState look() noexcept;
  /// The result of the last look.
  [[nodiscard]] LinkState state() const noexcept { return socket_ ? state_ : LinkState::none; }
  /// Why the connection is lost: `closed` without errno if it ended without "done"; else the errno,
  /// or `malformed` if the peer speaks something else.
  [[nodiscard]] const std::optional<Error>& cause() const noexcept { return cause_; }
  /// For epoll: readable when look() has news, and permanently after the end.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// Tells the peer that this side is done; returns whether that is sent. Never waits: if it
  /// returns false and the connection still exists, call it again when the socket takes more. After
  /// that it sends nothing.
  [[nodiscard]] bool say_done() noexcept;

 private:
  void end(const Error& why) noexcept;

  PrivateDescriptor socket_{};
  // The frame "done" is the only one that can come or go: a channel need not carry a whole
  // FrameReader.
  std::array<std::byte, kFrameHeaderBytes> heard_{};
  std::uint8_t heard_bytes_ = 0;
  std::uint8_t said_bytes_ = 0;
  LinkState state_ = LinkState::none;
  std::optional<Error> cause_{};
};

}  // namespace verbatim::detail
