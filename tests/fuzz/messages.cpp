// SPDX-License-Identifier: MIT OR Apache-2.0
// The plaintext of frames: what is decoded is what was encoded, to the byte.
#include "network/messages.hpp"

#include <algorithm>

#include "fuzz/fuzz.hpp"

using namespace verbatim::detail;

namespace {

template <class Message>
void decode_as(std::span<const std::byte> plaintext) {
  const auto message = decode<Message>(plaintext.subspan(1));
  if (message) verbatim::fuzz::require(std::ranges::equal(encode(*message), plaintext));
}

}  // namespace

VERBATIM_FUZZ(bytes) {
  const auto kind = kind_of(bytes);
  if (!kind) return;
  switch (*kind) {
    case MessageKind::join: return decode_as<JoinMessage>(bytes);
    case MessageKind::welcome: return decode_as<WelcomeMessage>(bytes);
    case MessageKind::refused: return decode_as<RefusedMessage>(bytes);
    case MessageKind::members: return decode_as<MembersMessage>(bytes);
    case MessageKind::contribution: return decode_as<ContributionMessage>(bytes);
    case MessageKind::gathered: return decode_as<GatheredMessage>(bytes);
    case MessageKind::failed: return decode_as<FailedMessage>(bytes);
    case MessageKind::offer: return decode_as<OfferMessage>(bytes);
    case MessageKind::offers: return decode_as<OffersMessage>(bytes);
    case MessageKind::ping: return decode_as<PingMessage>(bytes);
    case MessageKind::pong: return decode_as<PongMessage>(bytes);
    case MessageKind::departed: return decode_as<DepartedMessage>(bytes);
    case MessageKind::ask: return decode_as<AskMessage>(bytes);
    case MessageKind::state: return decode_as<StateMessage>(bytes);
    case MessageKind::regroup: return decode_as<RegroupMessage>(bytes);
    case MessageKind::who_is_missing: return decode_as<WhoIsMissingMessage>(bytes);
    case MessageKind::missing: return decode_as<MissingMessage>(bytes);
    case MessageKind::bye: return decode_as<ByeMessage>(bytes);
    case MessageKind::farewell: return decode_as<FarewellMessage>(bytes);
  }
}
