// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The options of a channel.
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

/// A time that must be given as a duration. Calls on a channel take a Deadline.
using Timeout = std::chrono::nanoseconds;

/// What a wait does while nothing comes: it spins, then yields the processor at each turn, then
/// sleeps until the device raises an event. Waking up costs tens of microseconds.
struct WaitPolicy {
  std::chrono::nanoseconds spin = std::chrono::microseconds{5};
  std::chrono::nanoseconds yield = std::chrono::microseconds{50};
  bool sleep = true;  ///< If false, it keeps yielding.
};

namespace detail {
class CompletionCore;
}

/// The completion queue of a Reactor, which its channels share: `{.on = reactor}`.
class SharedCompletions {
 public:
  SharedCompletions() noexcept = default;  ///< None: the channel has its own.
  explicit SharedCompletions(std::shared_ptr<detail::CompletionCore> core) noexcept
      : core_(std::move(core)) {}
  SharedCompletions(const SharedCompletions&) noexcept = default;
  SharedCompletions& operator=(const SharedCompletions&) noexcept = default;
  // Not inline: g++ 12 warns about an uninitialized core_ in options that are written inside a
  // call.
  ~SharedCompletions();
  [[nodiscard]] const std::shared_ptr<detail::CompletionCore>& core() const noexcept {
    return core_;
  }

 private:
  std::shared_ptr<detail::CompletionCore> core_{};
};

struct ChannelOptions {
  /// The Reactor whose thread drives the channel and gets its completions. Default: none.
  SharedCompletions on{};
  /// Requests that may be in flight at once, in each direction. A full queue is `would_block`.
  std::optional<std::uint32_t> max_sends{};     ///< Default 127.
  std::optional<std::uint32_t> max_receives{};  ///< Default 127. Unused with shared receives.
  std::optional<std::uint32_t> max_send_elements{};
  std::optional<std::uint32_t> max_receive_elements{};
  std::optional<std::uint32_t> max_inline_bytes{};
  /// What the peer may do through this channel with memory that it was given.
  AccessFlags access = Access::remote_read | Access::remote_write | Access::remote_atomic;

  /// For every wait without its own deadline.
  std::chrono::nanoseconds timeout = std::chrono::seconds{10};
  /// How long the device may take to return what is outstanding when the channel ends.
  std::chrono::nanoseconds flush_timeout = std::chrono::seconds{1};
  WaitPolicy wait{};
  /// For channels that learn of the peer's end through Canceller::end(). The device often notices
  /// first, but only that nobody answers. The channel then waits this long for end(), which becomes
  /// its cause, before it ends with the device's error. 0: it does not wait.
  std::chrono::nanoseconds news_timeout{0};
  /// If no result was taken for this long and nothing is being sent, waits and poll() send the peer
  /// a write of zero bytes. If its device does not answer, the peer is `peer_lost`. 0: off. This
  /// proves the path, not that the peer's program works. Use it for channels whose endpoints you
  /// carry yourself; Listener and dial() have the connection. The peer must allow `remote_write`,
  /// or connect() fails. The first one comes this long after connect(), and the peer must be
  /// connected by then.
  std::chrono::nanoseconds keepalive{0};

  std::optional<MaximumTransferUnit> mtu{};
  std::optional<std::uint8_t> max_read_atomic{};
  /// Default: random, and a new one after recycle().
  std::optional<PacketSequenceNumber> psn{};
  AckTimeout ack_timeout{};
  MaxAckRetries max_ack_retries{};
  MaxRnrRetries max_rnr_retries{};
  MinRnrTimer min_rnr_timer{};
  RouteOptions route{};
};

}  // namespace verbatim
