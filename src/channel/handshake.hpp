// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One side of one meeting, as a state machine that never waits.
///
///     dialler  -> greeting     -> listener     version, whether proof is required; nothing else
///              <- greeting     <-
///              <- proof        ->              rounds, if both sides have an Authenticator
///              -> introduction ->              endpoint and private data
///              <- introduction <-
///              <- ready        ->              connected: the peer may send
///
/// The listener creates its queue pair when the introduction has come. Clients that are silent,
/// refused or speak something else cost it only a descriptor and this object. Either side may send
/// a refusal in place of any record; then it hangs up.
///
/// To drive it, call step() until it returns true. Each time it returns false, wait for wanted() on
/// fd(), and give up at deadline(). Threads: one at a time.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "channel/frame.hpp"
#include "channel/private_descriptor.hpp"
#include "verbatim/channel/rendezvous.hpp"

namespace verbatim::detail {

/// What one side brings to its meetings; outlives them.
struct MeetingTerms {
  const char* operation;  ///< For errors; static storage.
  bool listens;
  const ProtectionDomain& domain;
  const ChannelOptions& channel;
  const PrepareChannel& prepare;
  const AdmitPeer& admit;
  const std::vector<std::byte>& private_data;
  bool same_user_only;
};

/// Too much is `limit_exceeded`, with both numbers.
[[nodiscard]] Result<void> check_private_data(std::size_t bytes, const char* operation) noexcept;

class Handshake {
 public:
  using Clock = std::chrono::steady_clock;
  /// `socket` is connected and non-blocking. `peer` holds what is already known.
  Handshake(const MeetingTerms& terms, PrivateDescriptor socket, Peer peer,
            Clock::time_point deadline);

  /// Goes as far as possible now. True: they have met, call take(). False: more must come. An error
  /// ends the meeting; the peer was told.
  [[nodiscard]] Result<bool> step();
  [[nodiscard]] short wanted() const noexcept;  ///< Events of poll(2).
  [[nodiscard]] Clock::time_point deadline() const noexcept { return deadline_; }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  /// The error at the deadline.
  [[nodiscard]] Error too_late() const noexcept;
  /// Tells the peer why it gets no channel, as far as possible without waiting.
  void refuse(const Error& why);

  [[nodiscard]] const Peer& peer() const noexcept { return peer_; }
  /// Whether the peer has sent its greeting.
  [[nodiscard]] bool has_greeted() const noexcept { return stage_ > Stage::greeting; }
  /// Whether the error came from this process (the device, `prepare`) and not from the peer.
  [[nodiscard]] bool is_own_fault() const noexcept { return own_fault_; }

  [[nodiscard]] Connection take() &&;

 private:
  /// The awaited record.
  enum class Stage : std::uint8_t { start, greeting, proof, introduction, ready, met };

  [[nodiscard]] Result<bool> advance();
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<void> hear(const Frame& frame);
  [[nodiscard]] Result<void> hear_greeting(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> hear_proof(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> hear_introduction(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> hear_ready(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> admit();
  [[nodiscard]] Result<void> prove(std::span<const std::byte> heard);
  [[nodiscard]] Result<void> go_on_to_introductions();
  [[nodiscard]] Result<void> make_channel();
  [[nodiscard]] Result<void> put_sealed(FrameKind kind, std::span<const std::byte> record);
  [[nodiscard]] Result<std::vector<std::byte>> opened(std::span<const std::byte> bytes);
  [[nodiscard]] FrameKind awaited() const noexcept;

  const MeetingTerms& terms_;
  PrivateDescriptor socket_;
  Peer peer_;
  Clock::time_point deadline_;
  Stage stage_ = Stage::start;
  bool own_fault_ = false;
  bool satisfied_ = false;  ///< With the peer's proof.
  int rounds_ = 0;
  FrameReader reader_{};
  FrameWriter writer_{};
  std::unique_ptr<Authenticator> authenticator_{};
  std::optional<PreparedChannel> prepared_{};
  std::optional<Channel> channel_{};
  std::vector<Pending<Buffer>> receives_{};
};

/// What is known about the other end of a connected socket.
[[nodiscard]] Peer peer_of(int fd, const std::string& unix_address);

}  // namespace verbatim::detail
