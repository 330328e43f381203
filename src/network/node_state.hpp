// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file All of a Node: what it has joined, which ranks it is connected to, and which have gone.
///
/// Threads: one at a time, except PeerNews, which the session's thread calls.
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "channel/socket_address.hpp"
#include "network/group.hpp"
#include "network/session_view.hpp"
#include "verbatim/channel/canceller.hpp"
#include "verbatim/multi/multi_channel.hpp"
#include "verbatim/network/barrier.hpp"
#include "verbatim/network/exchanger.hpp"
#include "verbatim/network/node.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::detail {

/// `peer_closed` for a rank that left, else `peer_lost`.
[[nodiscard]] Error error_of(const Departure& departure) noexcept;

/// Ends the channels to departed ranks, wherever their users are. Shared with the session's thread.
class PeerNews {
 public:
  explicit PeerNews(Rank own, Rank world) : own_(own), channels_(world) {}

  /// From now on; also if the peer has already gone.
  void watch(Rank rank, const Canceller& channel);
  void forget(Rank rank);
  void tell(const Departure& departure);
  /// Earlier news belongs to a generation that is over.
  void begin_generation();

 private:
  void end(Rank rank, const Departure& why) const noexcept;
  [[nodiscard]] bool concerns_all(const Departure& departure) const noexcept;

  const Rank own_;
  std::mutex mutex_;
  std::vector<std::optional<Canceller>> channels_;  ///< By rank.
  std::vector<Departure> told_{};
};

/// Counts down the time of one call over its steps.
class TimeLeft {
 public:
  explicit TimeLeft(Timeout limit) noexcept : end_(deadline_after(limit)) {}
  [[nodiscard]] Timeout operator()() const noexcept;

 private:
  std::chrono::steady_clock::time_point end_;
};

struct NodeState {
  NodeState(const ProtectionDomain& in, const Identity& who, const NodeOptions& chosen, Reactor on,
            std::unique_ptr<Group> with);
  NodeState(const NodeState&) = delete;
  NodeState& operator=(const NodeState&) = delete;
  ~NodeState();

  /// Joins with all ranks, and connects.
  [[nodiscard]] Result<void> join(const Identity& identity);
  [[nodiscard]] Result<void> connect(std::span<const Rank> ranks, Timeout limit);
  [[nodiscard]] Result<void> regroup(Timeout limit);
  [[nodiscard]] Result<void> leave(Timeout limit);
  [[nodiscard]] Result<Channel*> find(Rank rank) noexcept;
  [[nodiscard]] std::vector<Rank> present() const;

  const ProtectionDomain domain;
  const NodeOptions options;
  const std::shared_ptr<Coordinator> hosted;
  const std::shared_ptr<const void>
      launcher;  ///< Learns of our end when everything else has ended.
  Reactor reactor;
  // The channels are destroyed before the memory that their peers write.
  std::unique_ptr<Group> group;
  std::shared_ptr<PeerNews> news;
  MultiChannel multi;
  std::optional<Exchanger> session{};  // Its thread ends before what it tells.
  std::optional<ExchangerView> view{};
  std::optional<Barrier> everyone{};
  bool has_left = false;

 private:
  [[nodiscard]] std::vector<std::byte> record() const;
  [[nodiscard]] Error reason_of(const Error& error) const;
  /// Begins a generation of the group that the session already has.
  [[nodiscard]] Result<void> begin(const TimeLeft& left);
  /// After the session has begun a generation.
  [[nodiscard]] Result<void> take_members();
  /// The ranks that the options name.
  [[nodiscard]] std::vector<Rank> wanted() const;
  /// Creates and connects channels; the peers do the same. Does not know when they have finished.
  [[nodiscard]] Result<void> connect_to(std::span<const Rank> ranks, const TimeLeft& left);
  [[nodiscard]] Result<void> reconnect(const TimeLeft& left);
  void disconnect(Rank rank) noexcept;
  /// Waits for sends in flight to ranks that are still there.
  void finish_sends(const TimeLeft& left) noexcept;
};

}  // namespace verbatim::detail
