// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/hello.hpp"

#include <algorithm>

#include "base/byte_codec.hpp"
#include "network/sodium.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

constexpr std::uint32_t kMagic = 0x314e4256;  // "VBN1" in byte order.
constexpr std::string_view kContext = "verbatim net 1";

}  // namespace

JobId job_id(std::string_view name) {
  prepare_sodium();
  JobId id{};
  crypto_generichash(to_sodium(id.data()), id.size(),
                     reinterpret_cast<const unsigned char*>(name.data()), name.size(), nullptr, 0);
  return id;
}

Hello new_hello(const JobId& job) {
  prepare_sodium();
  Hello hello{.job = job};
  randombytes_buf(hello.nonce.data(), hello.nonce.size());
  return hello;
}

std::array<std::byte, kHelloBytes> encode(const Hello& hello) noexcept {
  std::array<std::byte, kHelloBytes> bytes{};
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(kMagic >> (8 * i) & 0xff);
  bytes[4] = static_cast<std::byte>(hello.version & 0xff);
  bytes[5] = static_cast<std::byte>(hello.version >> 8);
  const auto behind = std::copy(hello.job.begin(), hello.job.end(), bytes.begin() + 8);
  std::copy(hello.nonce.begin(), hello.nonce.end(), behind);
  return bytes;
}

Result<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes) noexcept {
  ByteReader reader{"session", bytes};
  const auto magic = VERBATIM_TRY(reader.get<std::uint32_t>("magic"));
  if (magic != kMagic) return std::unexpected(reader.malformed("magic", magic, kMagic));
  Hello hello;
  hello.version = VERBATIM_TRY(reader.get<std::uint16_t>("version"));
  if (hello.version != kWireVersion)
    return std::unexpected(Error{.code = Errc::incompatible,
                                 .operation = "session",
                                 .field = "version",
                                 .value = hello.version,
                                 .limit = kWireVersion});
  static_cast<void>(VERBATIM_TRY(reader.get_at_most<std::uint16_t>("zero", 0)));
  const auto job = VERBATIM_TRY(reader.get_bytes("job", hello.job.size()));
  std::copy(job.begin(), job.end(), hello.job.begin());
  const auto nonce = VERBATIM_TRY(reader.get_bytes("nonce", hello.nonce.size()));
  std::copy(nonce.begin(), nonce.end(), hello.nonce.begin());
  return hello;
}

SessionKeys::~SessionKeys() {
  sodium_memzero(from_client.data(), from_client.size());
  sodium_memzero(from_coordinator.data(), from_coordinator.size());
}

void derive(SessionKeys& keys, std::span<const std::byte, 32> secret, const JobId& job,
            const Nonce& client, const Nonce& coordinator) {
  auto both =
      keyed_hash<64>(secret, {std::as_bytes(std::span{kContext}), job, client, coordinator});
  std::copy_n(both.begin(), 32, keys.from_client.begin());
  std::copy_n(both.begin() + 32, 32, keys.from_coordinator.begin());
  sodium_memzero(both.data(), both.size());
}

}  // namespace verbatim::detail
