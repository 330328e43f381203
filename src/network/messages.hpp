// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What ranks and the coordinator say to each other: the plaintext of a frame is kind:8 body.
///
/// Decoders trust nothing: they never read beyond the body, make no allocation that the body's own
/// length does not justify, and treat bytes after the last field as `malformed`.
/// manual/network_protocol.md has the same as a table.
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "network/secure_stream.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/network/exchanger.hpp"

namespace verbatim::detail {

enum class MessageKind : std::uint8_t {
  join = 1,
  welcome = 2,
  refused = 3,
  members = 4,
  contribution = 5,
  gathered = 6,
  failed = 7,
  offer = 8,
  offers = 9,
  ping = 10,
  pong = 11,
  departed = 12,
  ask = 13,
  state = 14,
  regroup = 15,
  who_is_missing = 16,
  missing = 17,
  bye = 18,
  farewell = 19,
};
inline constexpr auto kLastMessageKind = MessageKind::farewell;

/// Messages about a world of this size fit into a frame.
inline constexpr Rank kMaxWorld = 16384;
inline constexpr std::size_t kMaxRecordBytes =
    512;  ///< A member's record, and the common part of offers.
inline constexpr std::size_t kMaxOwnBytes = 256;  ///< The part of an offer for one peer.
static_assert(std::size_t{kMaxWorld} * (8 + kMaxRecordBytes + kMaxOwnBytes) < kMaxPlaintext - 64);
static_assert(std::size_t{kMaxWorld} * (21 + kMaxRecordBytes) < kMaxPlaintext - 64);
inline constexpr std::size_t kMaxStateBytes = 256;
/// All records of one exchange() together; leaves room for the rest of the frame.
inline constexpr std::size_t kMaxExchangeBytes = std::size_t{15} << 20;
inline constexpr std::size_t kMaxNamedMissing = 16;

using Bytes = std::vector<std::byte>;

/// A call of the Exchanger in which others take part.
enum class Call : std::uint8_t {
  join = 0,
  exchange = 1,
  meet = 2,
  offer = 3,
  regroup = 4,
  leave = 5
};
inline constexpr auto kLastCall = Call::leave;

struct JoinMessage {
  static constexpr auto kKind = MessageKind::join;
  Rank rank = 0;
  Rank world = 0;
  std::uint8_t algorithm = 0;
  std::uint64_t host_high = 0;
  std::uint64_t host_low = 0;
  std::uint16_t processors = 0;
  Bytes record{};
};

struct WelcomeMessage {
  static constexpr auto kKind = MessageKind::welcome;
  std::uint32_t detect_ms = 0;  ///< After this much silence a rank is lost.
};

enum class RefusedField : std::uint8_t {
  rank_taken = 0,
  rank_beyond = 1,
  world = 2,
  algorithm = 3
};
inline constexpr auto kLastRefusedField = RefusedField::algorithm;
struct RefusedMessage {
  static constexpr auto kKind = MessageKind::refused;
  RefusedField field{};
  std::uint64_t value = 0;
  std::uint64_t limit = 0;
};

struct MembersMessage {
  static constexpr auto kKind = MessageKind::members;
  std::uint32_t generation = 0;
  std::vector<Member> members{};  ///< By rank, for the whole world.
};

/// A rank's part of an exchange() or meet().
struct ContributionMessage {
  static constexpr auto kKind = MessageKind::contribution;
  Call call{};
  std::uint32_t sequence = 0;
  Bytes bytes{};
};
struct GatheredMessage {
  static constexpr auto kKind = MessageKind::gathered;
  std::uint32_t sequence = 0;
  std::vector<Bytes> by_rank{};  ///< None for a meet().
};

enum class FailedWhy : std::uint8_t {
  departed = 0,   ///< `rank` is gone, and `departed` says how.
  too_large = 1,  ///< `value` bytes.
  mismatch = 2,   ///< `rank` made another call.
};
inline constexpr auto kLastFailedWhy = FailedWhy::mismatch;
struct FailedMessage {
  static constexpr auto kKind = MessageKind::failed;
  Call call{};
  std::uint32_t sequence = 0;
  FailedWhy why{};
  Departure departure{};
  std::uint64_t value = 0;
};

struct OfferMessage {
  static constexpr auto kKind = MessageKind::offer;
  std::uint32_t sequence = 0;
  Bytes common{};
  std::vector<PeerRecord> to{};
};
struct OffersMessage {
  static constexpr auto kKind = MessageKind::offers;
  std::uint32_t sequence = 0;
  std::vector<PeerOffer> from{};
};

struct PingMessage {
  static constexpr auto kKind = MessageKind::ping;
};
struct PongMessage {
  static constexpr auto kKind = MessageKind::pong;
};
struct DepartedMessage {
  static constexpr auto kKind = MessageKind::departed;
  std::vector<Departure> departures{};
};
/// To the coordinator: the rank to ask. From it: the rank that asks.
struct AskMessage {
  static constexpr auto kKind = MessageKind::ask;
  Rank rank = 0;
  std::uint32_t token = 0;
};
/// To the coordinator: the rank to answer. From it: the rank that answers.
struct StateMessage {
  static constexpr auto kKind = MessageKind::state;
  Rank rank = 0;
  std::uint32_t token = 0;
  Bytes bytes{};
};
struct RegroupMessage {
  static constexpr auto kKind = MessageKind::regroup;
  std::uint32_t generation = 0;  ///< The generation that it ends.
  Bytes record{};
};
struct WhoIsMissingMessage {
  static constexpr auto kKind = MessageKind::who_is_missing;
  Call call{};
  std::uint32_t token = 0;
};
struct MissingMessage {
  static constexpr auto kKind = MessageKind::missing;
  std::uint32_t token = 0;
  std::uint32_t count = 0;
  std::vector<Rank> first{};  ///< At most kMaxNamedMissing of them.
};
struct ByeMessage {
  static constexpr auto kKind = MessageKind::bye;
};
struct FarewellMessage {
  static constexpr auto kKind = MessageKind::farewell;
};

/// Kind and body.
[[nodiscard]] Bytes encode(const JoinMessage& message);
[[nodiscard]] Bytes encode(const WelcomeMessage& message);
[[nodiscard]] Bytes encode(const RefusedMessage& message);
[[nodiscard]] Bytes encode(const MembersMessage& message);
[[nodiscard]] Bytes encode(const ContributionMessage& message);
[[nodiscard]] Bytes encode(const GatheredMessage& message);
[[nodiscard]] Bytes encode(const FailedMessage& message);
[[nodiscard]] Bytes encode(const OfferMessage& message);
[[nodiscard]] Bytes encode(const OffersMessage& message);
[[nodiscard]] Bytes encode(const PingMessage& message);
[[nodiscard]] Bytes encode(const PongMessage& message);
[[nodiscard]] Bytes encode(const DepartedMessage& message);
[[nodiscard]] Bytes encode(const AskMessage& message);
[[nodiscard]] Bytes encode(const StateMessage& message);
[[nodiscard]] Bytes encode(const RegroupMessage& message);
[[nodiscard]] Bytes encode(const WhoIsMissingMessage& message);
[[nodiscard]] Bytes encode(const MissingMessage& message);
[[nodiscard]] Bytes encode(const ByeMessage& message);
[[nodiscard]] Bytes encode(const FarewellMessage& message);

/// The kind of a plaintext; `malformed` with field "kind" if it is unknown.
[[nodiscard]] Result<MessageKind> kind_of(std::span<const std::byte> plaintext) noexcept;
/// The body, as the Message for its kind.
template <class Message>
[[nodiscard]] Result<Message> decode(std::span<const std::byte> body);
template <>
Result<JoinMessage> decode(std::span<const std::byte> body);
template <>
Result<WelcomeMessage> decode(std::span<const std::byte> body);
template <>
Result<RefusedMessage> decode(std::span<const std::byte> body);
template <>
Result<MembersMessage> decode(std::span<const std::byte> body);
template <>
Result<ContributionMessage> decode(std::span<const std::byte> body);
template <>
Result<GatheredMessage> decode(std::span<const std::byte> body);
template <>
Result<FailedMessage> decode(std::span<const std::byte> body);
template <>
Result<OfferMessage> decode(std::span<const std::byte> body);
template <>
Result<OffersMessage> decode(std::span<const std::byte> body);
template <>
Result<DepartedMessage> decode(std::span<const std::byte> body);
template <>
Result<AskMessage> decode(std::span<const std::byte> body);
template <>
Result<StateMessage> decode(std::span<const std::byte> body);
template <>
Result<RegroupMessage> decode(std::span<const std::byte> body);
template <>
Result<WhoIsMissingMessage> decode(std::span<const std::byte> body);
template <>
Result<MissingMessage> decode(std::span<const std::byte> body);
template <>
Result<PingMessage> decode(std::span<const std::byte> body);
template <>
Result<PongMessage> decode(std::span<const std::byte> body);
template <>
Result<ByeMessage> decode(std::span<const std::byte> body);
template <>
Result<FarewellMessage> decode(std::span<const std::byte> body);

}  // namespace verbatim::detail
