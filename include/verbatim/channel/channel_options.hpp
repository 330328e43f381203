// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a channel is made with.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "verbatim/verbs/access.hpp"
#include "verbatim/verbs/queue_pair_options.hpp"
#include "verbatim/verbs/timers.hpp"

namespace verbatim {

class Channel;

/// A time that must be given as a length. Calls of a channel take a Deadline.
using Timeout = std::chrono::nanoseconds;

/// What a wait does while nothing comes: it spins, then gives the processor away at each turn, then
/// sleeps until the device raises an event. Waking up costs tens of microseconds.
struct WaitPolicy {
  std::chrono::nanoseconds spin = std::chrono::microseconds{5};
  std::chrono::nanoseconds yield = std::chrono::microseconds{50};
  bool sleep = true;  ///< Without: it keeps yielding.
};

namespace detail {
class CompletionCore;
}

/// The completion queue of a Reactor, which many channels share: `{.on = reactor}`.
class SharedCompletions {
 public:
  SharedCompletions() noexcept = default;  ///< None: the channel has one of its own.
  explicit SharedCompletions(std::shared_ptr<detail::CompletionCore> core) noexcept
      : core_(std::move(core)) {}
  SharedCompletions(const SharedCompletions&) noexcept = default;
  SharedCompletions& operator=(const SharedCompletions&) noexcept = default;
  // Not inline: g++ 12 warns of a core_ that it takes for uninitialized in options that are written
  // down in a call.
  ~SharedCompletions();
  [[nodiscard]] const std::shared_ptr<detail::CompletionCore>& core() const noexcept {
    return core_;
  }

 private:
  std::shared_ptr<detail::CompletionCore> core_{};
};

struct ChannelOptions {
  /// Whose thread drives the channel, and where its completions go: a Reactor. Default: nobody's.
  SharedCompletions on{};
  /// Requests that may be on their way at once, each way. A full queue is `would_block`.
  std::optional<std::uint32_t> max_sends{};     ///< Default 127.
  std::optional<std::uint32_t> max_receives{};  ///< Default 127. Not with shared receives.
  std::optional<std::uint32_t> max_send_elements{};
  std::optional<std::uint32_t> max_receive_elements{};
  std::optional<std::uint32_t> max_inline_bytes{};
  /// What the peer may do through this channel with memory that was given to it.
  AccessFlags access = Access::remote_read | Access::remote_write | Access::remote_atomic;

  /// For every wait that names no deadline of its own.
  std::chrono::nanoseconds timeout = std::chrono::seconds{10};
  /// How long the device may take to give back what is outstanding when the channel ends.
  std::chrono::nanoseconds flush_timeout = std::chrono::seconds{1};
  WaitPolicy wait{};
  /// For channels that Canceller::end() tells of the peer's end. The device often knows first, and
  /// only that nobody answers: the channel then waits so long for that word, which becomes its
  /// cause, before it ends with the device's error. 0: it does not wait.
  std::chrono::nanoseconds news_timeout{0};
  /// When no result was taken for so long and nothing is being sent, waits and poll() send the peer
  /// a write of no bytes; a peer whose device does not answer it is `peer_lost`. 0: off. It proves
  /// the path, and not that the peer's program does anything. For channels whose endpoints you
  /// carry yourself: Listener and dial() have the connection. The peer must allow `remote_write`,
  /// or connect() fails; the first comes so long after connect(), and the peer must be there then.
  std::chrono::nanoseconds keepalive{0};

  std::optional<MaximumTransferUnit> mtu{};
  std::optional<std::uint8_t> max_read_atomic{};
  /// Default: random, and another one after recycle().
  std::optional<PacketSequenceNumber> psn{};
  AckTimeout ack_timeout{};
  MaxAckRetries max_ack_retries{};
  MaxRnrRetries max_rnr_retries{};
  MinRnrTimer min_rnr_timer{};
  RouteOptions route{};
};

}  // namespace verbatim
