// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/frame.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/byte_codec.hpp"
#include "channel/tcp.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"

// A frame, little-endian:   "VBF1"  kind:8  zero:8  length:16 (of what follows)

namespace verbatim::detail {
namespace {

constexpr std::uint32_t kMagic = 0x31464256;  // "VBF1" in the order of the bytes.
constexpr std::size_t kHeaderBytes = 8;
static_assert(kMaxFrameBytes <= 0xffff);

const char* name_of(FrameKind kind) noexcept {
  switch (kind) {
    case FrameKind::endpoint: return "the peer's endpoint";
    case FrameKind::ready: return "the peer's ready record";
    case FrameKind::done: return "the peer's done";
  }
  return "";
}

/// How far a record came, and why no further.
struct Progress {
  const BoundedCall& call;
  const char* field;
  std::size_t wanted;
  std::size_t moved = 0;

  [[nodiscard]] Error stopped(Errc code, int os_error = 0) const noexcept {
    return {.code = code,
            .os_error = os_error,
            .operation = call.operation,
            .field = field,
            .value = moved,
            .limit = wanted};
  }
  [[nodiscard]] Error failed(int os_error) const noexcept {
    const bool gone = os_error == EPIPE || os_error == ECONNRESET || os_error == ECONNABORTED;
    return stopped(gone ? Errc::closed : errc_from_errno(os_error), os_error);
  }
};

/// Waits after EAGAIN; anything else ends the transfer.
Result<void> go_on(int fd, short events, const Progress& progress) noexcept {
  if (errno == EINTR) return {};
  if (errno != EAGAIN) return std::unexpected(progress.failed(errno));
  if (!wait_until_ready(fd, events, progress.call.deadline))
    return std::unexpected(progress.stopped(Errc::timed_out));
  return {};
}

Result<void> send_all(int fd, std::span<const std::byte> bytes, const char* field,
                      const BoundedCall& call) noexcept {
  Progress progress{.call = call, .field = field, .wanted = bytes.size()};
  while (progress.moved < bytes.size()) {
    const auto rest = bytes.subspan(progress.moved);
    const ssize_t sent = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0)
      VERBATIM_TRY(go_on(fd, POLLOUT, progress));
    else
      progress.moved += static_cast<std::size_t>(sent);
  }
  return {};
}

/// A peer that sends a byte now and then gains no time: the deadline is that of the whole call.
Result<void> receive_all(int fd, std::span<std::byte> bytes, const char* field,
                         const BoundedCall& call) noexcept {
  Progress progress{.call = call, .field = field, .wanted = bytes.size()};
  while (progress.moved < bytes.size()) {
    const auto rest = bytes.subspan(progress.moved);
    const ssize_t received = recv(fd, rest.data(), rest.size(), 0);
    if (received == 0) return std::unexpected(progress.stopped(Errc::closed));
    if (received < 0)
      VERBATIM_TRY(go_on(fd, POLLIN, progress));
    else
      progress.moved += static_cast<std::size_t>(received);
  }
  return {};
}

}  // namespace

Result<void> send_frame(int fd, FrameKind kind, std::span<const std::byte> payload,
                        const BoundedCall& call) noexcept {
  check(payload.size() <= kMaxFrameBytes, "send_frame: the record is too long");
  const auto length = static_cast<std::uint16_t>(payload.size());
  // In one piece, so that it goes out as one packet.
  std::array<std::byte, kHeaderBytes + kMaxFrameBytes> frame{};
  for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<std::byte>(kMagic >> (8 * i) & 0xff);
  frame[4] = static_cast<std::byte>(kind);
  frame[6] = static_cast<std::byte>(length & 0xff);
  frame[7] = static_cast<std::byte>(length >> 8);
  std::ranges::copy(payload, frame.begin() + kHeaderBytes);
  return send_all(fd, std::span{frame}.first(kHeaderBytes + length), "our record", call);
}

Result<std::size_t> receive_frame(int fd, FrameKind kind, std::span<std::byte> into,
                                  const BoundedCall& call) noexcept {
  std::array<std::byte, kHeaderBytes> header{};
  VERBATIM_TRY(receive_all(fd, header, name_of(kind), call));
  ByteReader reader{call.operation, header};
  const auto magic = VERBATIM_TRY(reader.get<std::uint32_t>("frame magic"));
  if (magic != kMagic) return std::unexpected(reader.malformed("frame magic", magic, kMagic));
  const auto found = VERBATIM_TRY(reader.get<std::uint8_t>("frame kind"));
  if (found != static_cast<std::uint8_t>(kind))
    return std::unexpected(reader.malformed("frame kind", found, static_cast<std::uint8_t>(kind)));
  static_cast<void>(VERBATIM_TRY(reader.get_at_most<std::uint8_t>("frame padding", 0)));
  const auto limit = static_cast<std::uint16_t>(std::min(into.size(), kMaxFrameBytes));
  const auto length = VERBATIM_TRY(reader.get_at_most<std::uint16_t>("frame length", limit));
  VERBATIM_TRY(receive_all(fd, into.first(length), name_of(kind), call));
  return std::size_t{length};
}

}  // namespace verbatim::detail
