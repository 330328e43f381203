// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/endpoint.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/byte_codec.hpp"
#include "base/random.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/endpoint_limits.hpp"

// The record, version 1. Little-endian, with no padding between the fields, and nothing after the
// last:
//
//    "VBEP"  version:16  length:16 (of all)  nonce:64  fabric_id:64
//    transport:8  link_layer:8  type:8  flags:8  lid:16  partition_key:16
//    queue_pair:32  psn:32  queue_key:32  max_message_bytes:32
//    mtu:8  read_atomic_initiator:8  read_atomic_responder:8  ack_timeout:8  min_rnr_timer:8
//    gid_count:8  { gid:128  index:32  type:8 } * gid_count

namespace verbatim {
namespace {

constexpr std::uint32_t kMagic = 0x50454256;  // "VBEP" in byte order.
constexpr std::size_t kFixedBytes = 54;
constexpr std::size_t kGidBytes = 21;
static_assert(kFixedBytes + Endpoint::kMaxGids * kGidBytes <= 512);

constexpr std::uint8_t kFlagGrhRequired = 1;
constexpr std::uint8_t kFlagAtomics = 2;
constexpr std::uint8_t kFlagRemoteWrite = 4;
constexpr std::uint8_t kAllFlags = kFlagGrhRequired | kFlagAtomics | kFlagRemoteWrite;

using detail::ByteReader;
using detail::ByteWriter;

template <class T>
using Number = std::underlying_type_t<T>;

/// For enumerators that are consecutive from `first` to `last`.
template <class E>
Result<E> get_enum(ByteReader& reader, const char* field, E first, E last) noexcept {
  const auto value = VERBATIM_TRY(reader.get_at_most<Number<E>>(field, std::to_underlying(last)));
  if (value < std::to_underlying(first))
    return std::unexpected(reader.malformed(field, value, std::to_underlying(last)));
  return static_cast<E>(value);
}

Result<void> read_header(ByteReader& reader, std::size_t size) noexcept {
  const auto magic = VERBATIM_TRY(reader.get<std::uint32_t>("magic"));
  if (magic != kMagic) return std::unexpected(reader.malformed("magic", magic, kMagic));
  // The version comes first, because in another version the bytes that follow may mean anything.
  const auto version = VERBATIM_TRY(reader.get<std::uint16_t>("version"));
  if (version != Endpoint::kVersion)
    return std::unexpected(reader.malformed("version", version, Endpoint::kVersion));
  const auto length = VERBATIM_TRY(reader.get<std::uint16_t>("length"));
  if (length != size) return std::unexpected(reader.malformed("length", length, size));
  return {};
}

Result<void> read_identity(ByteReader& reader, Endpoint& endpoint) noexcept {
  endpoint.nonce = VERBATIM_TRY(reader.get<std::uint64_t>("nonce"));
  endpoint.fabric_id = VERBATIM_TRY(reader.get<std::uint64_t>("fabric_id"));
  endpoint.transport =
      VERBATIM_TRY(get_enum(reader, "transport", Transport::hardware, Transport::soft));
  endpoint.link_layer =
      VERBATIM_TRY(get_enum(reader, "link_layer", LinkLayer::unspecified, LinkLayer::ethernet));
  endpoint.type = VERBATIM_TRY(get_enum(reader, "type", QueuePairType::reliable_connection,
                                        QueuePairType::unreliable_datagram));
  const auto flags = VERBATIM_TRY(reader.get_at_most<std::uint8_t>("flags", kAllFlags));
  endpoint.grh_required = (flags & kFlagGrhRequired) != 0;
  endpoint.atomics = (flags & kFlagAtomics) != 0;
  endpoint.remote_write = (flags & kFlagRemoteWrite) != 0;
  endpoint.lid = Lid{VERBATIM_TRY(reader.get<std::uint16_t>("lid"))};
  endpoint.partition_key = PartitionKey{VERBATIM_TRY(reader.get<std::uint16_t>("partition_key"))};
  return {};
}

Result<void> read_limits(ByteReader& reader, Endpoint& endpoint) noexcept {
  using detail::kMax24Bits;
  endpoint.queue_pair =
      QpNumber{VERBATIM_TRY(reader.get_at_most<std::uint32_t>("queue_pair", kMax24Bits))};
  const auto psn = VERBATIM_TRY(reader.get_at_most<std::uint32_t>("psn", kMax24Bits));
  endpoint.psn = VERBATIM_TRY(PacketSequenceNumber::from_value(psn));
  endpoint.queue_key = QueueKey{VERBATIM_TRY(reader.get<std::uint32_t>("queue_key"))};
  endpoint.max_message_bytes = VERBATIM_TRY(reader.get<std::uint32_t>("max_message_bytes"));
  endpoint.mtu = VERBATIM_TRY(
      get_enum(reader, "mtu", MaximumTransferUnit::bytes_256, MaximumTransferUnit::bytes_4096));
  endpoint.read_atomic_initiator = VERBATIM_TRY(reader.get<std::uint8_t>("read_atomic_initiator"));
  endpoint.read_atomic_responder = VERBATIM_TRY(reader.get<std::uint8_t>("read_atomic_responder"));
  const auto ack =
      VERBATIM_TRY(reader.get_at_most<std::uint8_t>("ack_timeout", detail::kMaxTimerCode));
  endpoint.ack_timeout = VERBATIM_TRY(AckTimeout::from_code(ack));
  const auto rnr =
      VERBATIM_TRY(reader.get_at_most<std::uint8_t>("min_rnr_timer", detail::kMaxTimerCode));
  endpoint.min_rnr_timer = VERBATIM_TRY(MinRnrTimer::from_code(rnr));
  return {};
}

Result<void> read_gids(ByteReader& reader, Endpoint& endpoint) {
  const auto count =
      VERBATIM_TRY(reader.get_at_most<std::uint8_t>("gid_count", Endpoint::kMaxGids));
  for (unsigned i = 0; i < count; ++i) {
    Endpoint::CandidateGid candidate;
    const auto bytes = VERBATIM_TRY(reader.get_bytes("gid", candidate.gid.bytes.size()));
    std::ranges::transform(bytes, candidate.gid.bytes.begin(),
                           [](std::byte each) { return std::to_integer<std::uint8_t>(each); });
    candidate.index = VERBATIM_TRY(reader.get<std::uint32_t>("gid_index"));
    candidate.type =
        VERBATIM_TRY(get_enum(reader, "gid_type", GidType::infiniband, GidType::roce_v2));
    endpoint.gids.push_back(candidate);
  }
  return {};
}

}  // namespace

const char* to_string(QueuePairType type) noexcept {
  switch (type) {
    case QueuePairType::reliable_connection: return "RC";
    case QueuePairType::unreliable_connection: return "UC";
    case QueuePairType::unreliable_datagram: return "UD";
  }
  return "unknown type";
}

Result<PacketSequenceNumber> PacketSequenceNumber::from_value(std::uint32_t value) noexcept {
  if (value > detail::kMax24Bits)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "PacketSequenceNumber::from_value",
                                 .field = "psn",
                                 .value = value,
                                 .limit = detail::kMax24Bits});
  return PacketSequenceNumber{value};
}

PacketSequenceNumber PacketSequenceNumber::random() noexcept {
  return PacketSequenceNumber{static_cast<std::uint32_t>(detail::random_u64()) &
                              detail::kMax24Bits};
}

std::vector<std::byte> encode(const Endpoint& endpoint) {
  // If the record were cut short here, the two sides would negotiate different results.
  check(endpoint.gids.size() <= Endpoint::kMaxGids, "Endpoint::gids: more than kMaxGids");
  ByteWriter writer;
  writer.put(kMagic);
  writer.put(Endpoint::kVersion);
  writer.put(static_cast<std::uint16_t>(kFixedBytes + endpoint.gids.size() * kGidBytes));
  writer.put(endpoint.nonce);
  writer.put(endpoint.fabric_id);
  writer.put(std::to_underlying(endpoint.transport));
  writer.put(std::to_underlying(endpoint.link_layer));
  writer.put(std::to_underlying(endpoint.type));
  writer.put(static_cast<std::uint8_t>((endpoint.grh_required ? kFlagGrhRequired : 0) |
                                       (endpoint.atomics ? kFlagAtomics : 0) |
                                       (endpoint.remote_write ? kFlagRemoteWrite : 0)));
  writer.put(std::to_underlying(endpoint.lid));
  writer.put(std::to_underlying(endpoint.partition_key));
  writer.put(std::to_underlying(endpoint.queue_pair));
  writer.put(endpoint.psn.value());
  writer.put(std::to_underlying(endpoint.queue_key));
  writer.put(endpoint.max_message_bytes);
  writer.put(std::to_underlying(endpoint.mtu));
  writer.put(endpoint.read_atomic_initiator);
  writer.put(endpoint.read_atomic_responder);
  writer.put(endpoint.ack_timeout.code());
  writer.put(endpoint.min_rnr_timer.code());
  writer.put(static_cast<std::uint8_t>(endpoint.gids.size()));
  for (const auto& candidate : endpoint.gids) {
    writer.put_bytes(std::as_bytes(std::span{candidate.gid.bytes}));
    writer.put(candidate.index);
    writer.put(std::to_underlying(candidate.type));
  }
  return std::move(writer).take();
}

Result<Endpoint> decode_endpoint(std::span<const std::byte> bytes) {
  ByteReader reader{"decode_endpoint", bytes};
  Endpoint endpoint;
  VERBATIM_TRY(read_header(reader, bytes.size()));
  VERBATIM_TRY(read_identity(reader, endpoint));
  VERBATIM_TRY(read_limits(reader, endpoint));
  VERBATIM_TRY(read_gids(reader, endpoint));
  if (reader.remaining() != 0)
    return std::unexpected(
        reader.malformed("length", bytes.size(), bytes.size() - reader.remaining()));
  return endpoint;
}

}  // namespace verbatim
