// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The records of a meeting, except the ready record: encoders, and decoders for hostile
/// bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/verbs/endpoint.hpp"

namespace verbatim::detail {

/// The version of the whole handshake. A peer with another version is `malformed` with field
/// "version".
inline constexpr std::uint16_t kHandshakeVersion = 2;

/// The first record. It shows only the version, and whether proof is required.
struct Greeting {
  bool authenticates = false;
};
[[nodiscard]] std::vector<std::byte> encode(const Greeting& greeting);
[[nodiscard]] Result<Greeting> decode_greeting(std::span<const std::byte> bytes,
                                               const char* operation);

/// One round of an authentication.
struct Proof {
  bool satisfied = false;
  std::vector<std::byte> message{};
};
[[nodiscard]] std::vector<std::byte> encode(const Proof& proof);
[[nodiscard]] Result<Proof> decode_proof(std::span<const std::byte> bytes, const char* operation);

struct Introduction {
  Endpoint endpoint{};
  std::vector<std::byte> private_data{};
};
[[nodiscard]] std::vector<std::byte> encode(const Introduction& introduction);
[[nodiscard]] Result<Introduction> decode_introduction(std::span<const std::byte> bytes,
                                                       const char* operation);

/// What a peer that gets no channel is told: the code, and the name of the field.
[[nodiscard]] std::vector<std::byte> encode_refusal(const Error& why);
/// The peer's refusal as an error of `operation`: its field is "refused by the peer", its text the
/// name that the peer gave. Bytes that are not a refusal are `malformed`.
[[nodiscard]] Error decode_refusal(std::span<const std::byte> bytes, const char* operation);

}  // namespace verbatim::detail
