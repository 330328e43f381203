// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/meeting_records.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_codec.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/channel/admission.hpp"

// Little-endian, with no padding between the fields, and nothing after the last.
//
//    greeting       "VBEP"  version:16  length:16 (of all)  authenticates:8
//    proof          satisfied:8  message
//    introduction   endpoint_length:16  endpoint  private data
//    refusal        code:8  name
//
// The greeting begins like the endpoint, which was the first record in version 1. A peer of that
// version therefore reports "version 2, must be 1", and not that it met a stranger. Later versions
// must keep this.

namespace verbatim::detail {
namespace {

constexpr std::uint32_t kMeetingMagic = 0x50454256;  // "VBEP" in byte order.
constexpr std::uint16_t kGreetingBytes = 9;
constexpr std::size_t kMaxName = 23;  ///< The most that the text of an Error holds.

/// The codes that a refusal may contain, by their number on the wire. The values of Errc itself are
/// not a format.
constexpr Errc kRefusals[] = {Errc::closed,          Errc::permission_denied, Errc::busy,
                              Errc::incompatible,    Errc::malformed,         Errc::timed_out,
                              Errc::out_of_resources};

}  // namespace

std::vector<std::byte> encode(const Greeting& greeting) {
  ByteWriter writer;
  writer.put(kMeetingMagic);
  writer.put(kHandshakeVersion);
  writer.put(kGreetingBytes);
  writer.put(std::uint8_t{greeting.authenticates});
  return std::move(writer).take();
}

Result<Greeting> decode_greeting(std::span<const std::byte> bytes, const char* operation) {
  ByteReader reader{operation, bytes};
  const auto magic = VERBATIM_TRY(reader.get<std::uint32_t>("magic"));
  if (magic != kMeetingMagic)
    return std::unexpected(reader.malformed("magic", magic, kMeetingMagic));
  const auto version = VERBATIM_TRY(reader.get<std::uint16_t>("version"));
  if (version != kHandshakeVersion)
    return std::unexpected(reader.malformed("version", version, kHandshakeVersion));
  const auto length = VERBATIM_TRY(reader.get<std::uint16_t>("length"));
  if (length != kGreetingBytes || bytes.size() != length)
    return std::unexpected(reader.malformed("length", bytes.size(), kGreetingBytes));
  const auto authenticates = VERBATIM_TRY(reader.get_at_most<std::uint8_t>("authentication", 1));
  return Greeting{.authenticates = authenticates == 1};
}

std::vector<std::byte> encode(const Proof& proof) {
  ByteWriter writer;
  writer.put(std::uint8_t{proof.satisfied});
  writer.put_bytes(proof.message);
  return std::move(writer).take();
}

Result<Proof> decode_proof(std::span<const std::byte> bytes, const char* operation) {
  ByteReader reader{operation, bytes};
  const auto satisfied = VERBATIM_TRY(reader.get_at_most<std::uint8_t>("proof", 1));
  if (reader.remaining() > Authenticator::kMaxMessageBytes)
    return std::unexpected(reader.malformed("length of the proof", reader.remaining(),
                                            Authenticator::kMaxMessageBytes));
  const auto message = VERBATIM_TRY(reader.get_bytes("proof", reader.remaining()));
  return Proof{.satisfied = satisfied == 1, .message = {message.begin(), message.end()}};
}

std::vector<std::byte> encode(const Introduction& introduction) {
  const std::vector<std::byte> endpoint = encode(introduction.endpoint);
  ByteWriter writer;
  writer.put(static_cast<std::uint16_t>(endpoint.size()));
  writer.put_bytes(endpoint);
  writer.put_bytes(introduction.private_data);
  return std::move(writer).take();
}

Result<Introduction> decode_introduction(std::span<const std::byte> bytes, const char* operation) {
  ByteReader reader{operation, bytes};
  const auto length = VERBATIM_TRY(reader.get<std::uint16_t>("length of the endpoint"));
  const auto endpoint = VERBATIM_TRY(reader.get_bytes("endpoint", length));
  if (reader.remaining() > kMaxPrivateDataBytes)
    return std::unexpected(
        reader.malformed("length of the private data", reader.remaining(), kMaxPrivateDataBytes));
  const auto data = VERBATIM_TRY(reader.get_bytes("private data", reader.remaining()));
  Introduction introduction{.endpoint = VERBATIM_TRY(decode_endpoint(endpoint))};
  introduction.private_data.assign(data.begin(), data.end());
  return introduction;
}

std::vector<std::byte> encode_refusal(const Error& why) {
  ByteWriter writer;
  const auto* const known = std::ranges::find(kRefusals, why.code);
  writer.put(static_cast<std::uint8_t>(known != std::end(kRefusals) ? known - kRefusals : 0));
  const std::string_view name = std::string_view{why.field}.substr(0, kMaxName);
  writer.put_bytes(std::as_bytes(std::span{name}));
  return std::move(writer).take();
}

Error decode_refusal(std::span<const std::byte> bytes, const char* operation) {
  ByteReader reader{operation, bytes};
  const auto code =
      reader.get_at_most<std::uint8_t>("refusal", std::uint8_t{std::size(kRefusals) - 1});
  if (!code) return code.error();
  if (reader.remaining() > kMaxName)
    return reader.malformed("length of the refusal", reader.remaining(), kMaxName);
  std::string name;
  for (const std::byte each : bytes.subspan(1)) {
    const auto letter = static_cast<char>(each);
    name.push_back(letter < ' ' || letter > '~' ? '.' : letter);  // It may end up on a terminal.
  }
  return Error{.code = kRefusals[*code], .operation = operation, .field = "refused by the peer"}
      .with_text(name);
}

}  // namespace verbatim::detail
