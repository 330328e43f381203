// SPDX-License-Identifier: MIT OR Apache-2.0
#include <arpa/inet.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "verbatim/base/check.hpp"
#include "verbatim/verbs/endpoint.hpp"
#include "verbs/endpoint_limits.hpp"
#include "verbs/json_reader.hpp"

namespace verbatim {
namespace {

using detail::JsonName;
using detail::JsonReader;

constexpr const char* kFromJsonOperation = "endpoint_from_json";

constexpr JsonName<Transport> kTransports[] = {
    {Transport::hardware, "hardware"},
    {Transport::kernel_software, "kernel_software"},
    {Transport::soft, "soft"},
};
constexpr JsonName<LinkLayer> kLinkLayers[] = {
    {LinkLayer::unspecified, "unspecified"},
    {LinkLayer::infiniband, "infiniband"},
    {LinkLayer::ethernet, "ethernet"},
};
constexpr JsonName<QueuePairType> kTypes[] = {
    {QueuePairType::reliable_connection, "reliable_connection"},
    {QueuePairType::unreliable_connection, "unreliable_connection"},
    {QueuePairType::unreliable_datagram, "unreliable_datagram"},
};
constexpr JsonName<GidType> kGidTypes[] = {
    {GidType::infiniband, "infiniband"},
    {GidType::roce_v1, "roce_v1"},
    {GidType::roce_v2, "roce_v2"},
};

template <class E, std::size_t N>
std::string name_of(E value, const JsonName<E> (&names)[N]) {
  return std::string{detail::json_name(value, std::span<const JsonName<E>>{names})};
}

template <class E, std::size_t N>
Result<E> read_name(const JsonReader& reader, const char* field, const JsonName<E> (&names)[N]) {
  return reader.name(field, std::span<const JsonName<E>>{names});
}

Result<Gid> read_gid(const JsonReader& reader) {
  const std::string text{VERBATIM_TRY(reader.string("gid"))};
  Gid gid;
  // A JSON string may contain a zero byte, and inet_pton would ignore everything after it.
  const bool whole = text.find('\0') == std::string::npos;
  if (!whole || inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) != 1)
    return std::unexpected(reader.wrong("gid", text));
  return gid;
}

Result<void> read_gids(const JsonReader& reader, Endpoint& endpoint) {
  const auto* entries = VERBATIM_TRY(reader.array("gids", Endpoint::kMaxGids));
  for (const auto& entry : *entries) {
    if (!entry.is_object()) return std::unexpected(reader.wrong("gids", entry.type_name()));
    const JsonReader fields{kFromJsonOperation, entry};
    Endpoint::CandidateGid candidate;
    candidate.gid = VERBATIM_TRY(read_gid(fields));
    candidate.index = VERBATIM_TRY(fields.number<std::uint32_t>("index"));
    candidate.type = VERBATIM_TRY(read_name(fields, "type", kGidTypes));
    endpoint.gids.push_back(candidate);
  }
  return {};
}

/// JSON holds the MTU in bytes, as people write it. The wire has a code.
Result<MaximumTransferUnit> read_mtu(const JsonReader& reader) {
  constexpr auto kLargest = MaximumTransferUnit::bytes_4096;
  const auto bytes = VERBATIM_TRY(reader.number<std::uint32_t>("mtu", byte_count(kLargest)));
  for (unsigned code = 1; code <= std::to_underlying(kLargest); ++code)
    if (const auto mtu = static_cast<MaximumTransferUnit>(code); byte_count(mtu) == bytes)
      return mtu;
  return std::unexpected(reader.out_of_range("mtu", bytes, byte_count(kLargest)));
}

Result<void> read_identity(const JsonReader& reader, Endpoint& endpoint) {
  endpoint.nonce = VERBATIM_TRY(reader.number<std::uint64_t>("nonce"));
  endpoint.transport = VERBATIM_TRY(read_name(reader, "transport", kTransports));
  endpoint.fabric_id = VERBATIM_TRY(reader.number<std::uint64_t>("fabric_id"));
  endpoint.link_layer = VERBATIM_TRY(read_name(reader, "link_layer", kLinkLayers));
  endpoint.lid = Lid{VERBATIM_TRY(reader.number<std::uint16_t>("lid"))};
  VERBATIM_TRY(read_gids(reader, endpoint));
  endpoint.grh_required = VERBATIM_TRY(reader.boolean("grh_required"));
  endpoint.type = VERBATIM_TRY(read_name(reader, "type", kTypes));
  endpoint.queue_pair =
      QpNumber{VERBATIM_TRY(reader.number<std::uint32_t>("queue_pair", detail::kMax24Bits))};
  const auto psn = VERBATIM_TRY(reader.number<std::uint32_t>("psn", detail::kMax24Bits));
  endpoint.psn = VERBATIM_TRY(PacketSequenceNumber::from_value(psn));
  endpoint.partition_key =
      PartitionKey{VERBATIM_TRY(reader.number<std::uint16_t>("partition_key"))};
  endpoint.queue_key = QueueKey{VERBATIM_TRY(reader.number<std::uint32_t>("queue_key"))};
  return {};
}

Result<void> read_limits(const JsonReader& reader, Endpoint& endpoint) {
  using detail::kMaxTimerCode;
  endpoint.mtu = VERBATIM_TRY(read_mtu(reader));
  endpoint.read_atomic_initiator =
      VERBATIM_TRY(reader.number<std::uint8_t>("read_atomic_initiator"));
  endpoint.read_atomic_responder =
      VERBATIM_TRY(reader.number<std::uint8_t>("read_atomic_responder"));
  endpoint.max_message_bytes = VERBATIM_TRY(reader.number<std::uint32_t>("max_message_bytes"));
  const auto ack = VERBATIM_TRY(reader.number<std::uint8_t>("ack_timeout", kMaxTimerCode));
  endpoint.ack_timeout = VERBATIM_TRY(AckTimeout::from_code(ack));
  const auto rnr = VERBATIM_TRY(reader.number<std::uint8_t>("min_rnr_timer", kMaxTimerCode));
  endpoint.min_rnr_timer = VERBATIM_TRY(MinRnrTimer::from_code(rnr));
  endpoint.atomics = VERBATIM_TRY(reader.boolean("atomics"));
  endpoint.remote_write = VERBATIM_TRY(reader.boolean("remote_write"));
  return {};
}

}  // namespace

std::string to_json(const Endpoint& endpoint) {
  // If the record were cut short here, the two sides would negotiate different results.
  check(endpoint.gids.size() <= Endpoint::kMaxGids, "Endpoint::gids: more than kMaxGids");
  auto gids = nlohmann::ordered_json::array();
  for (const auto& candidate : endpoint.gids)
    gids.push_back({{"gid", to_string(candidate.gid)},
                    {"index", candidate.index},
                    {"type", name_of(candidate.type, kGidTypes)}});
  return nlohmann::ordered_json{
      {"version", Endpoint::kVersion},
      {"nonce", endpoint.nonce},
      {"transport", name_of(endpoint.transport, kTransports)},
      {"fabric_id", endpoint.fabric_id},
      {"link_layer", name_of(endpoint.link_layer, kLinkLayers)},
      {"lid", std::to_underlying(endpoint.lid)},
      {"gids", std::move(gids)},
      {"grh_required", endpoint.grh_required},
      {"type", name_of(endpoint.type, kTypes)},
      {"queue_pair", std::to_underlying(endpoint.queue_pair)},
      {"psn", endpoint.psn.value()},
      {"partition_key", std::to_underlying(endpoint.partition_key)},
      {"queue_key", std::to_underlying(endpoint.queue_key)},
      {"mtu", byte_count(endpoint.mtu)},
      {"read_atomic_initiator", endpoint.read_atomic_initiator},
      {"read_atomic_responder", endpoint.read_atomic_responder},
      {"max_message_bytes", endpoint.max_message_bytes},
      {"ack_timeout", endpoint.ack_timeout.code()},
      {"min_rnr_timer", endpoint.min_rnr_timer.code()},
      {"atomics", endpoint.atomics},
      {"remote_write", endpoint.remote_write},
  }
      .dump();
}

Result<Endpoint> endpoint_from_json(std::string_view json) {
  const auto object = VERBATIM_TRY(JsonReader::parse(kFromJsonOperation, json));
  const JsonReader reader{kFromJsonOperation, object};
  // The version comes first, because in another version the fields may mean anything.
  const auto version = VERBATIM_TRY(reader.number<std::uint64_t>("version"));
  if (version != Endpoint::kVersion)
    return std::unexpected(reader.out_of_range("version", version, Endpoint::kVersion));
  Endpoint endpoint;
  VERBATIM_TRY(read_identity(reader, endpoint));
  VERBATIM_TRY(read_limits(reader, endpoint));
  return endpoint;
}

}  // namespace verbatim
