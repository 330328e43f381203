// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The stream connection beside a channel: how each side learns that the other has ended.
///
/// A process that ends, however it ends, ends its connections: the kernel tells the peer within a
/// round trip. A host that vanishes is noticed after kSilence. The connection is closed by exec()
/// and in forked children, which would otherwise hide this process's end.
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
  lost,      ///< The connection ended without a word, or broke: see Link::cause().
};
[[nodiscard]] std::string_view to_string(LinkState state) noexcept;

class Link {
 public:
  /// Bytes that the peer's host does not acknowledge for so long, or probes that it does not
  /// answer, end the connection.
  static constexpr std::chrono::seconds kSilence{10};

  Link() noexcept = default;
  /// A connected non-blocking stream socket.
  explicit Link(PrivateDescriptor socket) noexcept;

  /// What is known now. Never waits: one system call while the state is `open` or `leaving`, none
  /// from then on.
  [[nodiscard]] LinkState look() noexcept;
  /// Of the last look.
  [[nodiscard]] LinkState state() const noexcept { return socket_ ? state_ : LinkState::none; }
  /// Why the connection is lost: `closed` without errno for an end without a word, else the errno
  /// or, for a peer that talks something else, `malformed`.
  [[nodiscard]] const std::optional<Error>& cause() const noexcept { return cause_; }
  /// For epoll: readable when look() has something to see, and for good after the end.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// Tells the peer that we are done; whether that is on its way. Never waits: false, with the
  /// connection still there, asks to be called again when the socket takes more. From then on it
  /// says nothing.
  [[nodiscard]] bool say_done() noexcept;

 private:
  void end(const Error& why) noexcept;

  PrivateDescriptor socket_{};
  // All that can come and go is the frame "done": a channel need not carry a whole FrameReader.
  std::array<std::byte, kFrameHeaderBytes> heard_{};
  std::uint8_t heard_bytes_ = 0;
  std::uint8_t said_bytes_ = 0;
  LinkState state_ = LinkState::none;
  std::optional<Error> cause_{};
};

}  // namespace verbatim::detail
