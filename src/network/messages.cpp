// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/messages.hpp"

#include <algorithm>

#include "base/byte_codec.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

/// Begins a message with its kind.
template <class Message>
ByteWriter begin(const Message&) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(Message::kKind));
  return writer;
}

template <std::unsigned_integral Size>
void put_sized(ByteWriter& writer, std::span<const std::byte> bytes) {
  writer.put(static_cast<Size>(bytes.size()));
  writer.put_bytes(bytes);
}

Bytes to_bytes(std::span<const std::byte> span) { return {span.begin(), span.end()}; }

template <std::unsigned_integral Size>
Result<Bytes> get_sized(ByteReader& reader, const char* field, std::size_t most) {
  const std::size_t size = VERBATIM_TRY(reader.get<Size>(field));
  if (size > most) return std::unexpected(reader.malformed(field, size, most));
  return to_bytes(VERBATIM_TRY(reader.get_bytes(field, size)));
}

/// Reads all bytes that are left.
Result<Bytes> get_rest(ByteReader& reader, const char* field, std::size_t most) {
  const std::size_t size = reader.remaining();
  if (size > most) return std::unexpected(reader.malformed(field, size, most));
  return to_bytes(VERBATIM_TRY(reader.get_bytes(field, size)));
}

template <class Enum>
Result<Enum> get_enum(ByteReader& reader, const char* field, Enum last) {
  return static_cast<Enum>(
      VERBATIM_TRY(reader.get_at_most<std::uint8_t>(field, static_cast<std::uint8_t>(last))));
}

template <class Message>
Result<Message> end(const ByteReader& reader, Message message) {
  if (reader.remaining() != 0)
    return std::unexpected(reader.malformed("bytes behind the message", reader.remaining(), 0));
  return message;
}

Result<Departure> get_departure(ByteReader& reader) {
  Departure departure;
  departure.rank = VERBATIM_TRY(reader.get<std::uint32_t>("rank"));
  departure.why = VERBATIM_TRY(get_enum(reader, "why it departed", Departed::coordinator));
  return departure;
}
void put_departure(ByteWriter& writer, const Departure& departure) {
  writer.put(departure.rank);
  writer.put(static_cast<std::uint8_t>(departure.why));
}

template <class Message>
Bytes only_kind(const Message& message) {
  return begin(message).take();
}
template <class Message>
Result<Message> decode_only_kind(std::span<const std::byte> body) {
  return end(ByteReader{"session message", body}, Message{});
}

}  // namespace

Result<MessageKind> kind_of(std::span<const std::byte> plaintext) noexcept {
  ByteReader reader{"session message", plaintext};
  constexpr auto kLast = static_cast<std::uint8_t>(kLastMessageKind);
  const auto kind = VERBATIM_TRY(reader.get_at_most<std::uint8_t>("kind", kLast));
  if (kind == 0) return std::unexpected(reader.malformed("kind", kind, kLast));
  return static_cast<MessageKind>(kind);
}

Bytes encode(const JoinMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.rank);
  writer.put(message.world);
  writer.put(message.algorithm);
  writer.put(message.host_high);
  writer.put(message.host_low);
  writer.put(message.processors);
  writer.put_bytes(message.record);
  return std::move(writer).take();
}
template <>
Result<JoinMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"join", body};
  JoinMessage message;
  message.rank = VERBATIM_TRY(reader.get<std::uint32_t>("rank"));
  message.world = VERBATIM_TRY(reader.get<std::uint32_t>("world"));
  message.algorithm = VERBATIM_TRY(reader.get<std::uint8_t>("algorithm"));
  message.host_high = VERBATIM_TRY(reader.get<std::uint64_t>("host"));
  message.host_low = VERBATIM_TRY(reader.get<std::uint64_t>("host"));
  message.processors = VERBATIM_TRY(reader.get<std::uint16_t>("processors"));
  message.record = VERBATIM_TRY(get_rest(reader, "record", kMaxRecordBytes));
  return message;
}

Bytes encode(const WelcomeMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.detect_ms);
  return std::move(writer).take();
}
template <>
Result<WelcomeMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"welcome", body};
  WelcomeMessage message;
  message.detect_ms = VERBATIM_TRY(reader.get<std::uint32_t>("detect"));
  return end(reader, message);
}

Bytes encode(const RefusedMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(static_cast<std::uint8_t>(message.field));
  writer.put(message.value);
  writer.put(message.limit);
  return std::move(writer).take();
}
template <>
Result<RefusedMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"refused", body};
  RefusedMessage message;
  message.field = VERBATIM_TRY(get_enum(reader, "field", kLastRefusedField));
  message.value = VERBATIM_TRY(reader.get<std::uint64_t>("value"));
  message.limit = VERBATIM_TRY(reader.get<std::uint64_t>("limit"));
  return end(reader, message);
}

Bytes encode(const MembersMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.generation);
  for (const Member& member : message.members) {
    writer.put(static_cast<std::uint8_t>(member.present));
    if (!member.present) continue;
    writer.put(member.host_high);
    writer.put(member.host_low);
    writer.put(member.processors);
    put_sized<std::uint16_t>(writer, member.record);
  }
  return std::move(writer).take();
}
template <>
Result<MembersMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"members", body};
  MembersMessage message;
  message.generation = VERBATIM_TRY(reader.get<std::uint32_t>("generation"));
  while (reader.remaining() != 0) {
    Member& member = message.members.emplace_back();
    member.rank = static_cast<Rank>(message.members.size() - 1);
    member.present = VERBATIM_TRY(reader.get_at_most<std::uint8_t>("present", 1)) != 0;
    if (!member.present) continue;
    member.host_high = VERBATIM_TRY(reader.get<std::uint64_t>("host"));
    member.host_low = VERBATIM_TRY(reader.get<std::uint64_t>("host"));
    member.processors = VERBATIM_TRY(reader.get<std::uint16_t>("processors"));
    member.record = VERBATIM_TRY(get_sized<std::uint16_t>(reader, "record", kMaxRecordBytes));
  }
  return message;
}

Bytes encode(const ContributionMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(static_cast<std::uint8_t>(message.call));
  writer.put(message.sequence);
  writer.put_bytes(message.bytes);
  return std::move(writer).take();
}
template <>
Result<ContributionMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"contribution", body};
  ContributionMessage message;
  message.call = VERBATIM_TRY(get_enum(reader, "call", Call::meet));
  if (message.call == Call::join) return std::unexpected(reader.malformed("call", 0, 2));
  message.sequence = VERBATIM_TRY(reader.get<std::uint32_t>("sequence"));
  message.bytes = VERBATIM_TRY(
      get_rest(reader, "bytes", message.call == Call::exchange ? kMaxExchangeBytes : 0));
  return message;
}

Bytes encode(const GatheredMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.sequence);
  for (const Bytes& bytes : message.by_rank) put_sized<std::uint32_t>(writer, bytes);
  return std::move(writer).take();
}
template <>
Result<GatheredMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"gathered", body};
  GatheredMessage message;
  message.sequence = VERBATIM_TRY(reader.get<std::uint32_t>("sequence"));
  while (reader.remaining() != 0)
    message.by_rank.push_back(
        VERBATIM_TRY(get_sized<std::uint32_t>(reader, "bytes", kMaxExchangeBytes)));
  return message;
}

Bytes encode(const FailedMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(static_cast<std::uint8_t>(message.call));
  writer.put(message.sequence);
  writer.put(static_cast<std::uint8_t>(message.why));
  put_departure(writer, message.departure);
  writer.put(message.value);
  return std::move(writer).take();
}
template <>
Result<FailedMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"failed", body};
  FailedMessage message;
  message.call = VERBATIM_TRY(get_enum(reader, "call", kLastCall));
  message.sequence = VERBATIM_TRY(reader.get<std::uint32_t>("sequence"));
  message.why = VERBATIM_TRY(get_enum(reader, "why", kLastFailedWhy));
  message.departure = VERBATIM_TRY(get_departure(reader));
  message.value = VERBATIM_TRY(reader.get<std::uint64_t>("value"));
  return end(reader, message);
}

Bytes encode(const OfferMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.sequence);
  put_sized<std::uint16_t>(writer, message.common);
  for (const PeerRecord& peer : message.to) {
    writer.put(peer.rank);
    put_sized<std::uint16_t>(writer, peer.bytes);
  }
  return std::move(writer).take();
}
template <>
Result<OfferMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"offer", body};
  OfferMessage message;
  message.sequence = VERBATIM_TRY(reader.get<std::uint32_t>("sequence"));
  message.common = VERBATIM_TRY(get_sized<std::uint16_t>(reader, "common", kMaxRecordBytes));
  while (reader.remaining() != 0) {
    PeerRecord& peer = message.to.emplace_back();
    peer.rank = VERBATIM_TRY(reader.get<std::uint32_t>("rank"));
    peer.bytes = VERBATIM_TRY(get_sized<std::uint16_t>(reader, "own", kMaxOwnBytes));
  }
  return message;
}

Bytes encode(const OffersMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.sequence);
  for (const PeerOffer& peer : message.from) {
    writer.put(peer.rank);
    put_sized<std::uint16_t>(writer, peer.common);
    put_sized<std::uint16_t>(writer, peer.own);
  }
  return std::move(writer).take();
}
template <>
Result<OffersMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"offers", body};
  OffersMessage message;
  message.sequence = VERBATIM_TRY(reader.get<std::uint32_t>("sequence"));
  while (reader.remaining() != 0) {
    PeerOffer& peer = message.from.emplace_back();
    peer.rank = VERBATIM_TRY(reader.get<std::uint32_t>("rank"));
    peer.common = VERBATIM_TRY(get_sized<std::uint16_t>(reader, "common", kMaxRecordBytes));
    peer.own = VERBATIM_TRY(get_sized<std::uint16_t>(reader, "own", kMaxOwnBytes));
  }
  return message;
}

Bytes encode(const DepartedMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(static_cast<std::uint32_t>(message.departures.size()));
  for (const Departure& each : message.departures) put_departure(writer, each);
  return std::move(writer).take();
}
template <>
Result<DepartedMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"departed", body};
  DepartedMessage message;
  const auto count = VERBATIM_TRY(reader.get<std::uint32_t>("count"));
  for (std::uint32_t i = 0; i < count; ++i)  // A false count fails at the end of the bytes.
    message.departures.push_back(VERBATIM_TRY(get_departure(reader)));
  return end(reader, message);
}

Bytes encode(const AskMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.rank);
  writer.put(message.token);
  return std::move(writer).take();
}
template <>
Result<AskMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"ask", body};
  AskMessage message;
  message.rank = VERBATIM_TRY(reader.get<std::uint32_t>("rank"));
  message.token = VERBATIM_TRY(reader.get<std::uint32_t>("token"));
  return end(reader, message);
}

Bytes encode(const StateMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.rank);
  writer.put(message.token);
  writer.put_bytes(message.bytes);
  return std::move(writer).take();
}
template <>
Result<StateMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"state", body};
  StateMessage message;
  message.rank = VERBATIM_TRY(reader.get<std::uint32_t>("rank"));
  message.token = VERBATIM_TRY(reader.get<std::uint32_t>("token"));
  message.bytes = VERBATIM_TRY(get_rest(reader, "state", kMaxStateBytes));
  return message;
}

Bytes encode(const RegroupMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.generation);
  writer.put_bytes(message.record);
  return std::move(writer).take();
}
template <>
Result<RegroupMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"regroup", body};
  RegroupMessage message;
  message.generation = VERBATIM_TRY(reader.get<std::uint32_t>("generation"));
  message.record = VERBATIM_TRY(get_rest(reader, "record", kMaxRecordBytes));
  return message;
}

Bytes encode(const WhoIsMissingMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(static_cast<std::uint8_t>(message.call));
  writer.put(message.token);
  return std::move(writer).take();
}
template <>
Result<WhoIsMissingMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"who_is_missing", body};
  WhoIsMissingMessage message;
  message.call = VERBATIM_TRY(get_enum(reader, "call", kLastCall));
  message.token = VERBATIM_TRY(reader.get<std::uint32_t>("token"));
  return end(reader, message);
}

Bytes encode(const MissingMessage& message) {
  ByteWriter writer = begin(message);
  writer.put(message.token);
  writer.put(message.count);
  for (const Rank rank : message.first) writer.put(rank);
  return std::move(writer).take();
}
template <>
Result<MissingMessage> decode(std::span<const std::byte> body) {
  ByteReader reader{"missing", body};
  MissingMessage message;
  message.token = VERBATIM_TRY(reader.get<std::uint32_t>("token"));
  message.count = VERBATIM_TRY(reader.get<std::uint32_t>("count"));
  while (reader.remaining() != 0 && message.first.size() < kMaxNamedMissing)
    message.first.push_back(VERBATIM_TRY(reader.get<std::uint32_t>("rank")));
  return end(reader, std::move(message));
}

Bytes encode(const PingMessage& message) { return only_kind(message); }
Bytes encode(const PongMessage& message) { return only_kind(message); }
Bytes encode(const ByeMessage& message) { return only_kind(message); }
Bytes encode(const FarewellMessage& message) { return only_kind(message); }
template <>
Result<PingMessage> decode(std::span<const std::byte> body) {
  return decode_only_kind<PingMessage>(body);
}
template <>
Result<PongMessage> decode(std::span<const std::byte> body) {
  return decode_only_kind<PongMessage>(body);
}
template <>
Result<ByeMessage> decode(std::span<const std::byte> body) {
  return decode_only_kind<ByeMessage>(body);
}
template <>
Result<FarewellMessage> decode(std::span<const std::byte> body) {
  return decode_only_kind<FarewellMessage>(body);
}

}  // namespace verbatim::detail
