// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Records on a stream: each with its kind and length, none longer than it may be.
///
/// Nothing that a peer sends is trusted, and nothing beyond the frame is read. Each failure is one
/// error whose field names the expected record: `closed` (the peer went away), or `malformed` (it
/// speaks something else: with field "frame magic" the value is its first four bytes).
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

enum class FrameKind : std::uint8_t {
  greeting = 1,
  ready = 2,
  done = 3,
  refusal = 4,
  proof = 5,
  introduction = 6,
};
inline constexpr std::size_t kFrameHeaderBytes = 8;
inline constexpr std::size_t kMaxFrameBytes = 1024;

struct Frame {
  FrameKind kind;
  std::span<const std::byte> payload;  ///< Valid until the next step() of its reader.
};

/// Reads frames from a non-blocking stream socket, piece by piece. Uses a fixed amount of memory.
class FrameReader {
 public:
  /// A frame, or nothing yet. Never waits. `awaited` names the expected record, for errors; like
  /// `operation` it has static storage.
  [[nodiscard]] Result<std::optional<Frame>> step(int fd, const char* operation,
                                                  const char* awaited) noexcept;
  /// Bytes of the present frame so far, and its full length as far as known.
  [[nodiscard]] std::size_t arrived() const noexcept { return arrived_; }
  [[nodiscard]] std::size_t wanted() const noexcept { return wanted_; }

 private:
  [[nodiscard]] Result<void> read_header(const char* operation) noexcept;
  std::array<std::byte, kFrameHeaderBytes + kMaxFrameBytes> bytes_{};
  std::size_t arrived_ = 0;
  std::size_t wanted_ = kFrameHeaderBytes;
};

/// Writes frames to a non-blocking stream socket, in order. Uses a fixed amount of memory.
class FrameWriter {
 public:
  /// `payload` has at most kMaxFrameBytes. Two frames of that size may wait. A caller that does not
  /// read while a frame waits never has more.
  void put(FrameKind kind, std::span<const std::byte> payload) noexcept;
  /// Writes as much as the socket takes now; returns whether everything is written. Never waits,
  /// raises no signal.
  [[nodiscard]] Result<bool> step(int fd, const char* operation) noexcept;
  [[nodiscard]] bool empty() const noexcept { return sent_ == size_; }

 private:
  std::array<std::byte, 2 * (kFrameHeaderBytes + kMaxFrameBytes)> bytes_{};
  std::size_t size_ = 0;
  std::size_t sent_ = 0;
};

/// A whole frame: "done" has no payload.
inline constexpr std::array<std::byte, kFrameHeaderBytes> kDoneFrame{
    std::byte{'V'}, std::byte{'B'}, std::byte{'F'}, std::byte{'1'},
    static_cast<std::byte>(FrameKind::done)};

/// "the peer's greeting", and so on.
[[nodiscard]] const char* name_of(FrameKind kind) noexcept;

}  // namespace verbatim::detail
