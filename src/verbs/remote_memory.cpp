// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/remote_memory.hpp"

#include <utility>

#include "base/byte_codec.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/remote_memory_check.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kEncodedBytes = 24;
constexpr std::uint64_t kAtomicBytes = 8;

}  // namespace

// Address, length, key, and four zero bytes, which keep an array of records aligned.
std::vector<std::byte> encode(const RemoteMemoryRegion& region) {
  detail::ByteWriter writer;
  writer.put(region.address);
  writer.put(region.length);
  writer.put(std::to_underlying(region.key));
  writer.put(std::uint32_t{0});
  return std::move(writer).take();
}

Result<RemoteMemoryRegion> decode_remote_memory(std::span<const std::byte> bytes) {
  detail::ByteReader reader{"decode_remote_memory", bytes};
  if (bytes.size() != kEncodedBytes)
    return std::unexpected(reader.malformed("size", bytes.size(), kEncodedBytes));
  RemoteMemoryRegion region;
  region.address = VERBATIM_TRY(reader.get<std::uint64_t>("address"));
  region.length = VERBATIM_TRY(reader.get<std::uint64_t>("length"));
  region.key = RemoteKey{VERBATIM_TRY(reader.get<std::uint32_t>("key"))};
  const auto reserved = VERBATIM_TRY(reader.get<std::uint32_t>("reserved"));
  if (reserved != 0) return std::unexpected(reader.malformed("reserved", reserved, 0));
  if (detail::wraps_around(region))
    return std::unexpected(
        reader.malformed("length", region.length, detail::longest_at(region.address)));
  return region;
}

Result<RemoteAtomic> RemoteAtomic::at(const RemoteMemoryRegion& region,
                                      std::uint64_t offset) noexcept {
  const auto word = region.sub_region(offset, kAtomicBytes);
  if (!word)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "RemoteAtomic::at",
                                 .field = "offset",
                                 .value = offset,
                                 .limit = region.length});
  // For a misaligned address the device would fail the request, and the connection would be lost.
  if (word->address % kAtomicBytes != 0)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "RemoteAtomic::at",
                                 .field = "alignment",
                                 .value = word->address,
                                 .limit = kAtomicBytes});
  return RemoteAtomic{*word};
}

}  // namespace verbatim
