// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A channel before it has a peer: its queues exist, and receives may be posted.
///
/// Ownership: move-only; connect() consumes it.
/// Threads:   one at a time.
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/verbs/endpoint.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim {

/// A channel before it has a peer.
class PreparedChannel {
 public:
  /// Creates the queues. Receives may be posted from then on.
  [[nodiscard]] static Result<PreparedChannel> create(const ProtectionDomain& domain,
                                                      const ChannelOptions& options = {});

  /// What the peer needs; carry it to the peer.
  [[nodiscard]] const Endpoint& endpoint() const noexcept;
  /// Call it before connect(), so that the peer's first message finds a receive.
  template <RangedOwner Owner>
  [[nodiscard]] Pending<Owner> receive(
      Owner owner, ByteRange range = {},
      std::source_location where = std::source_location::current()) {
    return detail::OwnedPost::receive(core(), std::move(owner), range, where);
  }
  template <WholeOwner Owner>
  [[nodiscard]] Pending<Owner> receive(
      Owner owner, std::source_location where = std::source_location::current()) {
    return detail::OwnedPost::receive(core(), std::move(owner), {}, where);
  }
  /// One receive per owner, with one doorbell: see OwnedOperations.
  template <MemoryOwner Owner>
  [[nodiscard]] std::vector<Pending<Owner>> receive_each(
      std::vector<Owner> owners, std::source_location where = std::source_location::current()) {
    return detail::OwnedPost::receive_each(core(), std::move(owners), where);
  }

  /// Agrees with the peer. Local only: the peer may not be ready yet, and the device retries
  /// earlier messages for the ack timeout. If the endpoints are incompatible, nothing changes.
  [[nodiscard]] Result<Channel> connect(const Endpoint& peer) &&;

  PreparedChannel(PreparedChannel&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  PreparedChannel& operator=(PreparedChannel&& other) noexcept;
  ~PreparedChannel();

 private:
  friend class Channel;
  friend std::string to_string(const PreparedChannel& channel);
  explicit PreparedChannel(detail::ChannelState* state) noexcept : state_(state) {}
  [[nodiscard]] detail::ChannelState& owned() const {
    check(state_ != nullptr, "PreparedChannel: used after it was connected or moved from");
    return *state_;
  }
  [[nodiscard]] detail::ChannelCore& core() const;
  detail::ChannelState* state_;
};

/// "channel over RC queue pair 0x000040 on soft0 port 1, not connected".
[[nodiscard]] std::string to_string(const PreparedChannel& channel);

/// Two channels of this process, connected to each other.
[[nodiscard]] Result<std::pair<Channel, Channel>> connect_pair(const ProtectionDomain& domain,
                                                               const ChannelOptions& options = {});

}  // namespace verbatim
