// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The executor of barriers: walks through the steps of a schedule, and keeps its place while
/// it waits.
///
/// barrier.cpp creates barriers and takes steps. barrier_wait.cpp handles the case that steps do
/// not follow each other at once. barrier_missing.cpp finds out who has not come.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "network/barrier_report.hpp"
#include "network/flag.hpp"
#include "network/group.hpp"
#include "verbatim/base/annotations.hpp"
#include "verbatim/network/barrier.hpp"
#include "verbatim/verbs/work.hpp"

namespace verbatim::detail {

class BarrierState {
 public:
  using Clock = std::chrono::steady_clock;

  BarrierState(Group& group, std::span<const Rank> ranks, BarrierAlgorithm algorithm);
  BarrierState(const BarrierState&) = delete;
  BarrierState& operator=(const BarrierState&) = delete;
  ~BarrierState();

  /// Makes the steps; `not_ready` or `incompatible` if a peer cannot be notified.
  [[nodiscard]] Result<void> plan();

  [[nodiscard]] Result<void> arrive(BarrierOptions options, Deadline deadline);
  [[nodiscard]] bool ready() noexcept;
  [[nodiscard]] BarrierResult wait(Deadline deadline);

  [[nodiscard]] std::span<const Rank> ranks() const noexcept { return ranks_; }
  [[nodiscard]] BarrierAlgorithm algorithm() const noexcept { return algorithm_; }

 private:
  enum class Stage : std::uint8_t { idle, entered, failed };
  enum class Progress : std::uint8_t { done, waiting, failed };

  /// A step, with everything it needs.
  struct Move {
    bool notify;
    Rank rank;
    GroupPeer* peer;
    std::uint64_t* word;               ///< In `outgoing`.
    std::optional<Write<1>> notice{};  ///< For a step that notifies.
  };

  /// A channel has failed.
  struct Suspicion {
    Rank rank;
    Error error;
    Clock::time_point since;
    bool was_told = false;  ///< Whether the session was told.
  };

  // barrier.cpp
  /// Why it cannot be used at all.
  [[nodiscard]] std::optional<Error> unusable() const noexcept;
  [[nodiscard]] Result<void> may_enter() const;
  [[nodiscard]] Result<void> fence(Deadline deadline);
  /// Goes as far as possible without waiting.
  [[nodiscard]] Progress advance() noexcept;
  [[nodiscard]] Progress notify(const Move& move) noexcept;
  /// The state of the notice that this move waits for.
  [[nodiscard]] Seen seen_of(const Move& move) const noexcept {
    const std::uint64_t wanted = make_flag(generation_, tag_, move.peer->awaited + 1);
    return compare(in_memory(group_.slots.load_acquire<std::uint64_t>(kSlotBytes * move.rank)),
                   wanted);
  }
  void leave() noexcept;
  /// It is over, and the others may be anywhere.
  VERBATIM_COLD void fail(const Error& error) noexcept;
  [[nodiscard]] BarrierResult take_failure() noexcept;

  // barrier_wait.cpp
  [[nodiscard]] BarrierResult wait_long(Deadline deadline);
  /// Takes completions, and handles channels that have failed.
  void look_after_channels(Clock::time_point now) noexcept;
  VERBATIM_COLD void suspect(Rank rank, const Error& error, Clock::time_point now) noexcept;
  /// Whether work with this rank is left: its notice has not come, or ours was not sent to it.
  [[nodiscard]] bool needs(Rank rank) const noexcept;
  [[nodiscard]] bool has_left(Rank rank) const;
  /// The rank had finished the barrier when it closed its channel: no failure for us.
  [[nodiscard]] bool is_through(const Suspicion& suspicion) const;
  /// The error for the loss of a member: that of the first one lost, else of the first that left
  /// before it had done its part, else of the first that left.
  [[nodiscard]] std::optional<Error> gone_member() const;
  /// Fails if a member is lost. If a member has left, fails if it had not done its part before.
  void heed_departures();
  /// A member has left. Asks the ranks that we wait for whether it made their barrier fail, and
  /// then fails, too.
  void ask_who_failed();
  /// A transport error waits for the session's verdict, which says more. Without a verdict it is
  /// the failure.
  void heed_suspicion(Clock::time_point now, Clock::time_point end);

  // barrier_missing.cpp
  void report(BarrierReport::Stand stand, std::vector<Rank> ranks = {});
  [[nodiscard]] std::optional<BarrierReport> report_of(Rank rank) const;
  [[nodiscard]] std::vector<Rank> awaited() const;
  [[nodiscard]] std::vector<RankState> missing() const;
  [[nodiscard]] BarrierError late() const;

  const std::shared_ptr<GroupLife> life_;
  Group& group_;  ///< Valid while life_ says so.
  const std::uint32_t generation_;
  const std::vector<Rank> ranks_;
  const BarrierAlgorithm algorithm_;
  const std::uint16_t tag_;
  std::vector<Move> moves_{};

  Stage stage_ = Stage::idle;
  std::size_t next_ = 0;  ///< Index of the next Move.
  BarrierState* next_open_ = nullptr;
  Error failure_{};  ///< Set if failed.

  // For a barrier that takes long.
  std::optional<Suspicion> suspicion_{};
  std::uint32_t changes_ = 0;       ///< The changes that were looked at.
  std::optional<Error> gone_{};     ///< A member has left properly.
  Clock::time_point gone_since_{};  ///< When we heard of it, or last asked who failed.
  bool is_reported_ = false;
};

}  // namespace verbatim::detail
