// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The first bytes of a session, unencrypted, and the keys derived from them.
///
///     "VBN1"  version:16  zero:16  job:128  nonce:256          56 bytes, both ways
///
/// Of a hello with another version, only the version is understood.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

inline constexpr std::size_t kHelloBytes = 56;
inline constexpr std::uint16_t kWireVersion = 1;

using JobId = std::array<std::byte, 16>;
/// BLAKE2b of the job's name.
[[nodiscard]] JobId job_id(std::string_view name);

using Nonce = std::array<std::byte, 32>;
struct Hello {
  std::uint16_t version = kWireVersion;
  JobId job{};
  Nonce nonce{};
};
/// With this version and a new nonce.
[[nodiscard]] Hello new_hello(const JobId& job);
[[nodiscard]] std::array<std::byte, kHelloBytes> encode(const Hello& hello) noexcept;
/// `malformed` with field "magic", or `incompatible` with field "version".
[[nodiscard]] Result<Hello> decode_hello(std::span<const std::byte, kHelloBytes> bytes) noexcept;

/// One for each direction; wiped when destroyed.
struct SessionKeys {
  std::array<std::byte, 32> from_client{};
  std::array<std::byte, 32> from_coordinator{};
  SessionKeys() = default;
  SessionKeys(const SessionKeys&) = delete;
  SessionKeys& operator=(const SessionKeys&) = delete;
  ~SessionKeys();
};
/// BLAKE2b-512(key = secret, "verbatim net 1" ‖ job ‖ client's nonce ‖ coordinator's nonce).
void derive(SessionKeys& keys, std::span<const std::byte, 32> secret, const JobId& job,
            const Nonce& client, const Nonce& coordinator);

}  // namespace verbatim::detail
