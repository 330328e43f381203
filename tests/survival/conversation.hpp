// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Endless traffic with one peer: sends, writes with immediate, reads and atomics, in a
/// random mix, with every byte checked.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "conformance/peer_session.hpp"
#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::test {

/// Memory of a Buffer, which peers map, or of the process, where each access is a system call.
enum class MemoryKind : std::uint8_t { buffer, plain };

/// Memory of either kind for our own requests.
class LocalMemory {
 public:
  LocalMemory(const ProtectionDomain& domain, std::size_t bytes, MemoryKind kind);
  [[nodiscard]] std::span<std::byte> bytes();
  [[nodiscard]] GatherElement gather(std::size_t offset, std::size_t size);
  [[nodiscard]] ScatterElement scatter(std::size_t offset, std::size_t size);

 private:
  std::vector<std::byte> plain_;  // Before its region.
  std::optional<MemoryRegion> region_;
  std::optional<Buffer> buffer_;
};

/// Receives that several conversations share, and their memory.
class SharedSink {
 public:
  SharedSink(const ProtectionDomain& domain, std::size_t places, std::size_t place_bytes,
             MemoryKind kind = MemoryKind::buffer);
  void post(std::size_t place);
  [[nodiscard]] std::span<std::byte> bytes(std::size_t place);
  [[nodiscard]] std::size_t places() const noexcept { return places_; }
  [[nodiscard]] const SharedReceiveQueue& queue() const noexcept { return queue_; }

 private:
  std::size_t places_;
  std::size_t place_bytes_;
  LocalMemory memory_;
  SharedReceiveQueue queue_;
};

class Conversation {
 public:
  enum class Checks : std::uint8_t { all, none };
  static constexpr std::size_t kBytes = 4096;       // Of a message, at most.
  static constexpr std::size_t kReceives = 8;       // How many messages may be unseen,
  static constexpr std::size_t kMostReceives = 48;  // and how many of a shared sink, at most.

  /// Both sides create one, over a link between them, and connect. Without a `sink` it has its own
  /// receives.
  Conversation(const ProtectionDomain& domain, Link& link, std::uint64_t seed,
               Checks checks = Checks::all, SharedSink* sink = nullptr,
               MemoryKind kind = MemoryKind::buffer);

  /// Takes what has come and posts what there is room for. Throws if a byte is wrong. Returns how
  /// many completions there were.
  std::size_t step();
  /// From here on only takes what arrives; is_idle() when everything that was posted has completed.
  void stop() noexcept { stopped_ = true; }
  [[nodiscard]] bool is_idle() const noexcept { return stopped_ && sends_out_ == 0; }

  /// The first failed completion, if any. From then on nothing is posted.
  [[nodiscard]] std::optional<WorkStatus> broken() const noexcept { return broken_; }
  /// Whether every request has completed. Shared receives stay, because others need them.
  [[nodiscard]] bool is_drained() const noexcept {
    return sends_out_ == 0 && (shared_sink_ != nullptr || receives_out_ == 0);
  }
  /// How many messages came and were right.
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

 private:
  enum class Kind : std::uint8_t { read, send, write, add };
  static constexpr std::size_t kWindow = 4;  // Requests at a time.
  // For the peer's writes. There are more than receives, because otherwise one would be overwritten
  // before it is seen.
  static constexpr std::size_t kSlots = kMostReceives + 2 * kWindow;
  static constexpr std::size_t kStandingAt = kSlots * kBytes;       // What peers read,
  static constexpr std::size_t kCounterAt = (kSlots + 1) * kBytes;  // and what they add to.

  Conversation(const ProtectionDomain& domain, std::uint64_t seed, Checks checks, SharedSink* sink,
               MemoryKind kind, const CompletionQueue& sends, const CompletionQueue& receives);
  void post_receive(std::size_t place);
  void post_request();
  void take_sent(const Completion& done);
  void take_received(const Completion& done);
  void require_that(const testing::AssertionResult& result) const;

  Random random_;
  Checks checks_;
  CompletionQueue sends_;
  CompletionQueue receives_;
  LocalMemory source_;
  LocalMemory sink_;
  LocalMemory read_sink_;
  std::vector<std::byte> plain_;    // Of exposed_, unless that has its own memory.
  verbatim::SharedRegion exposed_;  // kSlots places for writes, one for reads, a counter.
  SharedSink* shared_sink_;
  RemoteMemoryRegion peer_memory_;
  std::optional<QueuePair> queue_pair_;
  std::array<Kind, kWindow> kinds_{};
  std::uint64_t requests_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t added_ = 0;  // To the peer's counter; nobody else adds to it.
  std::size_t sends_out_ = 0;
  std::size_t receives_out_ = 0;
  bool stopped_ = false;
  std::optional<WorkStatus> broken_;
};

}  // namespace verbatim::test
