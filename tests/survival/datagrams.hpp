// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Endless datagrams to one peer and back. Some may be lost; those that arrive are right.
#include <cstdint>
#include <optional>

#include "conformance/peer_session.hpp"
#include "support/connected_pair.hpp"
#include "support/pattern.hpp"

namespace verbatim::test {

class DatagramTalk {
 public:
  /// Both sides create one, over a link between them, and exchange addresses.
  DatagramTalk(const ProtectionDomain& domain, Link& link, std::uint64_t seed);

  /// Takes what has come and sends what there is room for. Throws if a byte is wrong, or if a send
  /// fails. For the sender of a datagram, a dead peer is the same as one that does not listen.
  void step();

  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

 private:
  static constexpr std::size_t kHeader = 40;   // What a datagram's receive buffer starts with.
  static constexpr std::size_t kBytes = 1000;  // Of a message, at most.
  static constexpr std::size_t kWindow = 4;
  static constexpr std::size_t kReceives = 8;
  static constexpr std::size_t kPlace = kHeader + kBytes;

  DatagramTalk(const ProtectionDomain& domain, std::uint64_t seed, const CompletionQueue& sends,
               const CompletionQueue& receives);
  void post_receive(std::size_t place);
  void send_next();
  void take(const Completion& done);

  Random random_;
  CompletionQueue sends_;
  CompletionQueue receives_;
  Buffer source_;
  Buffer sink_;
  std::optional<QueuePair> queue_pair_;
  std::optional<AddressHandle> to_;
  QpNumber peer_{};
  QueueKey key_{};
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::size_t out_ = 0;
};

}  // namespace verbatim::test
