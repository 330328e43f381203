// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/ready_record.hpp"

#include <concepts>

#include "base/byte_codec.hpp"
#include "verbatim/base/try.hpp"

// The record, version 1. Little-endian, with no padding between the fields, and nothing after the
// last:
//
//    "VBRD"  version:16  length:16 (of all)  nonce:64  seen_nonce:64

namespace verbatim::detail {
namespace {

constexpr std::uint32_t kReadyMagic = 0x44524256;  // "VBRD" in byte order.
constexpr std::uint16_t kVersion = 1;

/// A ByteWriter that does not allocate, because the record is written on paths that cannot fail.
class RecordWriter {
 public:
  template <std::unsigned_integral T>
  void put(T value) noexcept {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      record_[size_++] = static_cast<std::byte>(value >> (8 * i) & 0xff);
  }
  [[nodiscard]] const ReadyRecord& take() const noexcept { return record_; }

 private:
  ReadyRecord record_{};
  std::size_t size_ = 0;
};

Result<void> expect_nonce(ByteReader& reader, const char* field, std::uint64_t wanted) noexcept {
  const auto nonce = VERBATIM_TRY(reader.get<std::uint64_t>(field));
  if (nonce == wanted) return {};
  return std::unexpected(Error{.code = Errc::incompatible,
                               .operation = "confirm",
                               .field = field,
                               .value = nonce,
                               .limit = wanted});
}

}  // namespace

ReadyRecord encode_ready(std::uint64_t nonce, std::uint64_t seen) noexcept {
  RecordWriter writer;
  writer.put(kReadyMagic);
  writer.put(kVersion);
  writer.put(std::uint16_t{sizeof(ReadyRecord)});
  writer.put(nonce);
  writer.put(seen);
  return writer.take();
}

Result<void> check_ready(std::span<const std::byte> record, std::uint64_t own_nonce,
                         std::uint64_t peer_nonce) noexcept {
  ByteReader reader{"confirm", record};
  const auto magic = VERBATIM_TRY(reader.get<std::uint32_t>("magic"));
  if (magic != kReadyMagic) return std::unexpected(reader.malformed("magic", magic, kReadyMagic));
  const auto version = VERBATIM_TRY(reader.get<std::uint16_t>("version"));
  if (version != kVersion) return std::unexpected(reader.malformed("version", version, kVersion));
  const auto length = VERBATIM_TRY(reader.get<std::uint16_t>("length"));
  if (length != sizeof(ReadyRecord) || record.size() != length)
    return std::unexpected(reader.malformed("length", record.size(), sizeof(ReadyRecord)));
  VERBATIM_TRY(expect_nonce(reader, "nonce", peer_nonce));
  VERBATIM_TRY(expect_nonce(reader, "seen nonce", own_nonce));
  return {};
}

}  // namespace verbatim::detail
