// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/handshake.hpp"

#include <cxxabi.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <string_view>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/link.hpp"
#include "channel/meeting_records.hpp"
#include "channel/tcp.hpp"
#include "channel/unix_socket.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {

Result<std::vector<std::byte>> Authenticator::seal(std::span<const std::byte> record) {
  return std::vector<std::byte>{record.begin(), record.end()};
}
Result<std::vector<std::byte>> Authenticator::open(std::span<const std::byte> sealed) {
  return std::vector<std::byte>{sealed.begin(), sealed.end()};
}

namespace detail {

/// Gives the connection to the channel.
struct Rendezvous {
  static void keep(Channel& channel, PrivateDescriptor link) noexcept {
    whole(*channel.state_).keep_link(Link{std::move(link)});
  }
};

namespace {

/// Calls the program's code, which may throw. `hook` fills the field of an error that names none.
template <class Call>
auto guarded(const char* operation, const char* hook, Call&& call) -> decltype(call()) {
  const auto refused = [&](std::string_view said) {
    return std::unexpected(
        Error{.code = Errc::permission_denied, .operation = operation, .field = hook}.with_text(
            said));
  };
  try {
    auto result = call();
    if (result) return result;
    Error error = result.error();
    if (*error.operation == '\0') error.operation = operation;
    if (*error.field == '\0') error.field = hook;
    return std::unexpected(error);
  } catch (const abi::__forced_unwind&) {
    throw;  // The thread is being cancelled.
  } catch (const std::exception& thrown) {
    return refused(thrown.what());
  } catch (...) {
    return refused("an exception");
  }
}

Error over_limit(const char* operation, const char* field, std::size_t value,
                 std::size_t limit) noexcept {
  return {.code = Errc::limit_exceeded,
          .operation = operation,
          .field = field,
          .value = value,
          .limit = limit};
}

}  // namespace

Result<void> check_private_data(std::size_t bytes, const char* operation) noexcept {
  if (bytes <= kMaxPrivateDataBytes) return {};
  return std::unexpected(
      over_limit(operation, "bytes of private data", bytes, kMaxPrivateDataBytes));
}

Peer peer_of(int fd, const std::string& unix_address) {
  Peer peer;
  if (const auto who = peer_credentials(fd)) {
    peer.user = who->user;
    peer.process = who->process;
    peer.address = unix_address;
  } else if (const auto address = peer_address(fd, "")) {
    peer.address = to_string(*address);
  } else {
    peer.address = "a client that is gone";
  }
  return peer;
}

Handshake::Handshake(const MeetingTerms& terms, PrivateDescriptor socket, Peer peer,
                     Clock::time_point deadline)
    : terms_(terms), socket_(std::move(socket)), peer_(std::move(peer)), deadline_(deadline) {}

short Handshake::wanted() const noexcept { return writer_.empty() ? POLLIN : POLLOUT; }

FrameKind Handshake::awaited() const noexcept {
  switch (stage_) {
    case Stage::start:
    case Stage::greeting: return FrameKind::greeting;
    case Stage::proof: return FrameKind::proof;
    case Stage::introduction: return FrameKind::introduction;
    case Stage::ready:
    case Stage::met: return FrameKind::ready;
  }
  return FrameKind::greeting;
}

Error Handshake::too_late() const noexcept {
  return {.code = Errc::timed_out,
          .operation = terms_.operation,
          .field = name_of(awaited()),
          .value = reader_.arrived(),
          .limit = reader_.wanted()};
}

void Handshake::refuse(const Error& why) {
  // Reads what has arrived first. Closing a connection with unread data resets it, and then the
  // peer may never see our refusal.
  std::array<std::byte, 4096> unread;
  static_cast<void>(recv(socket_.get(), unread.data(), unread.size(), MSG_DONTWAIT));
  writer_ = FrameWriter{};
  writer_.put(FrameKind::refusal, encode_refusal(why));
  [[maybe_unused]] const auto told = writer_.step(socket_.get(), terms_.operation);
}

Result<bool> Handshake::step() {
  auto went = advance();
  // A stranger gets no answer, because it would not understand it.
  if (!went && stage_ != Stage::greeting) refuse(went.error());
  return went;
}

Result<bool> Handshake::advance() {
  if (stage_ == Stage::start) VERBATIM_TRY(begin());
  for (;;) {
    // Our answer must be sent before the next frame is read. So only a little ever waits to be
    // sent.
    if (!VERBATIM_TRY(writer_.step(socket_.get(), terms_.operation))) return false;
    if (stage_ == Stage::met) return true;
    const auto frame =
        VERBATIM_TRY(reader_.step(socket_.get(), terms_.operation, name_of(awaited())));
    if (!frame) return false;
    VERBATIM_TRY(hear(*frame));
  }
}

Result<void> Handshake::begin() {
  if (terms_.same_user_only && peer_.user && !is_same_user(*peer_.user, geteuid()))
    return std::unexpected(Error{.code = Errc::permission_denied,
                                 .operation = terms_.operation,
                                 .field = "user of the peer",
                                 .value = *peer_.user,
                                 .limit = geteuid()});
  if (!terms_.listens) {
    VERBATIM_TRY(admit());
    writer_.put(FrameKind::greeting, encode(Greeting{.authenticates = authenticator_ != nullptr}));
  }
  stage_ = Stage::greeting;
  return {};
}

Result<void> Handshake::admit() {
  if (!terms_.admit) return {};
  auto admitted = guarded(terms_.operation, "admit", [&] { return terms_.admit(peer_); });
  authenticator_ = VERBATIM_TRY(std::move(admitted));
  return {};
}

Result<void> Handshake::hear(const Frame& frame) {
  if (frame.kind == FrameKind::refusal)
    return std::unexpected(decode_refusal(frame.payload, terms_.operation));
  if (frame.kind != awaited())
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = terms_.operation,
                                 .field = "frame kind",
                                 .value = static_cast<std::uint8_t>(frame.kind),
                                 .limit = static_cast<std::uint8_t>(awaited())});
  switch (stage_) {
    case Stage::greeting: return hear_greeting(frame.payload);
    case Stage::proof: return hear_proof(frame.payload);
    case Stage::introduction: return hear_introduction(frame.payload);
    case Stage::ready: return hear_ready(frame.payload);
    case Stage::start:
    case Stage::met: break;
  }
  return {};
}

Result<void> Handshake::hear_greeting(std::span<const std::byte> bytes) {
  const auto greeting = decode_greeting(bytes, terms_.operation);
  if (!greeting) {
    if (terms_.listens && std::string_view{greeting.error().field} == "version") {
      // The answer lets a peer of another version report the mismatch, too.
      writer_.put(FrameKind::greeting, encode(Greeting{}));
      [[maybe_unused]] const auto told = writer_.step(socket_.get(), terms_.operation);
    }
    return std::unexpected(greeting.error());
  }
  stage_ = Stage::introduction;
  if (terms_.listens) {
    VERBATIM_TRY(admit());
    writer_.put(FrameKind::greeting, encode(Greeting{.authenticates = authenticator_ != nullptr}));
  }
  if (greeting->authenticates != (authenticator_ != nullptr))
    return std::unexpected(Error{
        .code = Errc::incompatible,
        .operation = terms_.operation,
        .field = authenticator_ ? "no authentication by the peer" : "the peer asks for proof"});
  return authenticator_ ? prove({}) : go_on_to_introductions();
}

Result<void> Handshake::prove(std::span<const std::byte> heard) {
  stage_ = Stage::proof;
  if (++rounds_ > Authenticator::kMaxRounds)
    return std::unexpected(over_limit(terms_.operation, "rounds of authentication",
                                      static_cast<std::size_t>(rounds_),
                                      std::size_t{Authenticator::kMaxRounds}));
  auto answer = VERBATIM_TRY(
      guarded(terms_.operation, "authenticate", [&] { return authenticator_->step(heard); }));
  if (answer.message.size() > Authenticator::kMaxMessageBytes) {
    own_fault_ = true;
    return std::unexpected(over_limit(terms_.operation, "bytes of an Authenticator's message",
                                      answer.message.size(), Authenticator::kMaxMessageBytes));
  }
  satisfied_ = answer.satisfied;
  writer_.put(FrameKind::proof,
              encode(Proof{.satisfied = satisfied_, .message = std::move(answer.message)}));
  return {};
}

Result<void> Handshake::hear_proof(std::span<const std::byte> bytes) {
  const Proof proof = VERBATIM_TRY(decode_proof(bytes, terms_.operation));
  return satisfied_ && proof.satisfied ? go_on_to_introductions() : prove(proof.message);
}

/// The dialler introduces itself first. The listener then creates its channel when it knows the
/// peer.
Result<void> Handshake::go_on_to_introductions() {
  stage_ = Stage::introduction;
  return terms_.listens ? Result<void>{} : make_channel();
}

Result<void> Handshake::make_channel() {
  own_fault_ = true;
  prepared_.emplace(VERBATIM_TRY(PreparedChannel::create(terms_.domain, terms_.channel)));
  Preparation preparation;
  if (terms_.prepare)
    preparation = VERBATIM_TRY(
        guarded(terms_.operation, "prepare", [&] { return terms_.prepare(*prepared_, peer_); }));
  receives_ = std::move(preparation.receives);
  Introduction ours{.endpoint = prepared_->endpoint(), .private_data = terms_.private_data};
  if (preparation.private_data) ours.private_data = *std::move(preparation.private_data);
  VERBATIM_TRY(check_private_data(ours.private_data.size(), terms_.operation));
  VERBATIM_TRY(put_sealed(FrameKind::introduction, encode(ours)));
  own_fault_ = false;
  return {};
}

Result<void> Handshake::hear_introduction(std::span<const std::byte> bytes) {
  const auto plain = VERBATIM_TRY(opened(bytes));
  Introduction theirs = VERBATIM_TRY(decode_introduction(plain, terms_.operation));
  peer_.private_data = std::move(theirs.private_data);
  if (terms_.listens) VERBATIM_TRY(make_channel());
  auto connected = (*std::move(prepared_)).connect(theirs.endpoint);
  if (!connected) {
    own_fault_ = connected.error() != Errc::incompatible;
    return std::unexpected(connected.error());
  }
  channel_.emplace(*std::move(connected));
  prepared_.reset();
  stage_ = Stage::ready;
  // From here on the peer may send to us. We may send when its ready record has arrived.
  return put_sealed(FrameKind::ready, channel_->ready_record());
}

Result<void> Handshake::hear_ready(std::span<const std::byte> bytes) {
  const auto plain = VERBATIM_TRY(opened(bytes));
  VERBATIM_TRY(channel_->confirm(plain));
  stage_ = Stage::met;
  return {};
}

Result<void> Handshake::put_sealed(FrameKind kind, std::span<const std::byte> record) {
  if (!authenticator_) {
    writer_.put(kind, record);
    return {};
  }
  const auto sealed =
      VERBATIM_TRY(guarded(terms_.operation, "seal", [&] { return authenticator_->seal(record); }));
  if (sealed.size() > kMaxFrameBytes) {
    own_fault_ = true;
    return std::unexpected(
        over_limit(terms_.operation, "bytes of a sealed record", sealed.size(), kMaxFrameBytes));
  }
  writer_.put(kind, sealed);
  return {};
}

Result<std::vector<std::byte>> Handshake::opened(std::span<const std::byte> bytes) {
  if (!authenticator_) return std::vector<std::byte>{bytes.begin(), bytes.end()};
  return guarded(terms_.operation, "open", [&] { return authenticator_->open(bytes); });
}

Connection Handshake::take() && {
  Rendezvous::keep(*channel_, std::move(socket_));
  return {
      .channel = *std::move(channel_), .peer = std::move(peer_), .receives = std::move(receives_)};
}

}  // namespace detail
}  // namespace verbatim
