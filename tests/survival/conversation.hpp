// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Endless traffic with one peer: sends, writes with immediate and reads, in a random mix,
/// every byte of it checked.
#include <array>
#include <cstdint>
#include <optional>

#include "conformance/peer_session.hpp"
#include "support/connected_pair.hpp"
#include "support/pattern.hpp"

namespace verbatim::test {

class Conversation {
 public:
  enum class Checks : std::uint8_t { all, none };

  /// Both sides make one, over a link between them: connects.
  Conversation(const ProtectionDomain& domain, Link& link, std::uint64_t seed,
               Checks checks = Checks::all);

  /// Takes what has come and posts what there is room for. Throws when a byte is wrong.
  void step();

  /// The first bad completion, if there was one: from then on nothing is posted.
  [[nodiscard]] std::optional<WorkStatus> broken() const noexcept { return broken_; }
  /// Whether every request has completed.
  [[nodiscard]] bool is_drained() const noexcept { return sends_out_ == 0 && receives_out_ == 0; }
  /// Messages that came and were right.
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

 private:
  static constexpr std::size_t kBytes = 4096;  // Of a message, at most.
  static constexpr std::size_t kWindow = 4;    // Requests at a time.
  static constexpr std::size_t kReceives = 8;  // So many messages may be unseen.
  static constexpr std::size_t kSlots = 16;    // For the peer's writes: more than those.

  Conversation(const ProtectionDomain& domain, std::uint64_t seed, Checks checks,
               const CompletionQueue& sends, const CompletionQueue& receives);
  void post_receive(std::size_t place);
  void post_request();
  void take_sent(const Completion& done);
  void take_received(const Completion& done);
  void require_that(const testing::AssertionResult& result) const;

  Random random_;
  Checks checks_;
  CompletionQueue sends_;
  CompletionQueue receives_;
  Buffer source_;
  Buffer sink_;
  Buffer read_sink_;
  verbatim::SharedRegion exposed_;  // kSlots places for writes, then one for reads.
  RemoteMemoryRegion peer_memory_;
  std::optional<QueuePair> queue_pair_;
  std::array<bool, kWindow> is_read_{};
  std::uint64_t requests_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t received_ = 0;
  std::size_t sends_out_ = 0;
  std::size_t receives_out_ = 0;
  std::optional<WorkStatus> broken_;
};

}  // namespace verbatim::test
