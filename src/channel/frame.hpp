// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Records on a stream: each with its kind and length, none longer than it may be.
///
/// Nothing that a peer sends is trusted, and nothing beyond the frame is read. What goes wrong is
/// one error whose field says which record was to come: `closed` (the peer went away), `timed_out`
/// (it is too slow), `malformed` (it talks something else).
#include <cstddef>
#include <cstdint>
#include <span>

#include "channel/socket_address.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

enum class FrameKind : std::uint8_t { endpoint = 1, ready = 2, done = 3 };
inline constexpr std::size_t kMaxFrameBytes = 1024;

/// `fd` is a non-blocking stream socket, here as below.
[[nodiscard]] Result<void> send_frame(int fd, FrameKind kind, std::span<const std::byte> payload,
                                      const BoundedCall& call) noexcept;
/// Waits for a frame of this kind and puts its payload into `into`; how many bytes it has. A
/// payload that does not fit is refused before it is read.
[[nodiscard]] Result<std::size_t> receive_frame(int fd, FrameKind kind, std::span<std::byte> into,
                                                const BoundedCall& call) noexcept;

}  // namespace verbatim::detail
