// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/frame.hpp"

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

constexpr std::uint32_t kFrameMagic = 0x31464256;  // "VBF1" in byte order.
static_assert(kMaxFrameBytes <= 0xffff);

using Header = std::array<std::byte, kFrameHeaderBytes>;

Header header_of(FrameKind kind, std::size_t length) noexcept {
  Header header{};
  for (std::size_t i = 0; i < 4; ++i)
    header[i] = static_cast<std::byte>(kFrameMagic >> (8 * i) & 0xff);
  header[4] = static_cast<std::byte>(kind);
  header[6] = static_cast<std::byte>(length & 0xff);
  header[7] = static_cast<std::byte>(length >> 8);
  return header;
}

Error link_failure(const char* operation, const char* field, int os_error) noexcept {
  const bool gone = os_error == EPIPE || os_error == ECONNRESET || os_error == ECONNABORTED;
  return {.code = gone ? Errc::closed : errc_from_errno(os_error),
          .os_error = os_error,
          .operation = operation,
          .field = field};
}

}  // namespace

const char* name_of(FrameKind kind) noexcept {
  switch (kind) {
    case FrameKind::greeting: return "the peer's greeting";
    case FrameKind::ready: return "the peer's ready record";
    case FrameKind::done: return "the peer's done";
    case FrameKind::refusal: return "the peer's refusal";
    case FrameKind::proof: return "the peer's proof";
    case FrameKind::introduction: return "the peer's endpoint";
  }
  return "";
}

Result<void> FrameReader::read_header(const char* operation) noexcept {
  Header header{};
  std::copy_n(bytes_.begin(), header.size(), header.begin());
  ByteReader reader{operation, header};
  const auto magic = VERBATIM_TRY(reader.get<std::uint32_t>("frame magic"));
  if (magic != kFrameMagic)
    return std::unexpected(reader.malformed("frame magic", magic, kFrameMagic));
  constexpr auto kLast = static_cast<std::uint8_t>(FrameKind::introduction);
  const auto kind = VERBATIM_TRY(reader.get_at_most<std::uint8_t>("frame kind", kLast));
  if (kind == 0) return std::unexpected(reader.malformed("frame kind", kind, kLast));
  static_cast<void>(VERBATIM_TRY(reader.get_at_most<std::uint8_t>("frame padding", 0)));
  wanted_ += VERBATIM_TRY(
      reader.get_at_most<std::uint16_t>("frame length", std::uint16_t{kMaxFrameBytes}));
  return {};
}

Result<std::optional<Frame>> FrameReader::step(int fd, const char* operation,
                                               const char* awaited) noexcept {
  if (arrived_ == wanted_) {  // The last frame was handed out.
    arrived_ = 0;
    wanted_ = kFrameHeaderBytes;
  }
  while (arrived_ < wanted_) {
    const ssize_t got = recv(fd, bytes_.data() + arrived_, wanted_ - arrived_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got <= 0) {
      Error error = link_failure(operation, awaited, got == 0 ? EPIPE : errno);
      if (got == 0) error.os_error = 0;
      error.value = arrived_;
      error.limit = wanted_;
      return std::unexpected(error);
    }
    arrived_ += static_cast<std::size_t>(got);
    if (arrived_ == kFrameHeaderBytes && wanted_ == kFrameHeaderBytes)
      VERBATIM_TRY(read_header(operation));
  }
  return Frame{static_cast<FrameKind>(bytes_[4]),
               std::span{bytes_}.subspan(kFrameHeaderBytes, wanted_ - kFrameHeaderBytes)};
}

void FrameWriter::put(FrameKind kind, std::span<const std::byte> payload) noexcept {
  check(payload.size() <= kMaxFrameBytes, "FrameWriter: the record is too long");
  if (empty()) size_ = sent_ = 0;
  check(bytes_.size() - size_ >= kFrameHeaderBytes + payload.size(), "FrameWriter: too much waits");
  // Header and payload are contiguous, so that they leave in one packet.
  for (const std::byte each : header_of(kind, payload.size())) bytes_[size_++] = each;
  for (const std::byte each : payload) bytes_[size_++] = each;
}

Result<bool> FrameWriter::step(int fd, const char* operation) noexcept {
  while (!empty()) {
    const auto rest = std::span{bytes_}.subspan(sent_, size_ - sent_);
    const ssize_t sent = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      sent_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return std::unexpected(link_failure(operation, "our record", errno));
    }
  }
  return true;
}

}  // namespace verbatim::detail
