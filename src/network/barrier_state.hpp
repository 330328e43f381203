// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The executor of barriers: walks the steps of a schedule, and keeps its place while it
/// waits.
///
/// barrier.cpp makes barriers and takes steps; barrier_wait.cpp has what happens when the steps do
/// not follow each other at once, barrier_missing.cpp finds out who has not come.
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

  /// The steps; `not_ready` or `incompatible` if a peer cannot be notified.
  [[nodiscard]] Result<void> plan();

  [[nodiscard]] Result<void> arrive(BarrierOptions options, Deadline deadline);
  [[nodiscard]] bool ready() noexcept;
  [[nodiscard]] BarrierResult wait(Deadline deadline);

  [[nodiscard]] std::span<const Rank> ranks() const noexcept { return ranks_; }
  [[nodiscard]] BarrierAlgorithm algorithm() const noexcept { return algorithm_; }

 private:
  enum class Stage : std::uint8_t { idle, entered, failed };
  enum class Progress : std::uint8_t { done, waiting, failed };

  /// A step, with all that it needs.
  struct Move {
    bool notify;
    Rank rank;
    GroupPeer* peer;
    std::uint64_t* word;               ///< In `outgoing`.
    std::optional<Write<1>> notice{};  ///< Of a step that notifies.
  };

  /// A channel has failed.
  struct Suspicion {
    Rank rank;
    Error error;
    Clock::time_point since;
    bool was_told = false;  ///< To the session.
  };

  // barrier.cpp
  /// Why nothing can be done with it at all.
  [[nodiscard]] std::optional<Error> unusable() const noexcept;
  [[nodiscard]] Result<void> may_enter() const;
  [[nodiscard]] Result<void> fence(Deadline deadline);
  /// As far as it goes without waiting.
  [[nodiscard]] Progress advance() noexcept;
  [[nodiscard]] Progress notify(const Move& move) noexcept;
  /// What there is of the notice that this move awaits.
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
  /// Takes completions, and looks after channels that have failed.
  void look_after_channels(Clock::time_point now) noexcept;
  VERBATIM_COLD void suspect(Rank rank, const Error& error, Clock::time_point now) noexcept;
  /// Whether there is something left to do with it: its notice has not come, or it has not got
  /// ours.
  [[nodiscard]] bool needs(Rank rank) const noexcept;
  [[nodiscard]] bool has_left(Rank rank) const;
  /// It was through the barrier when it closed its channel: that is no failure of ours.
  [[nodiscard]] bool is_through(const Suspicion& suspicion) const;
  /// What the loss of a member is told as: of the first that is gone without a word, else of the
  /// first that has left before its part was done, else of the first that has left.
  [[nodiscard]] std::optional<Error> gone_member() const;
  /// Fails if a member is gone; if it has left, when it has not done its part before.
  void heed_departures();
  /// Somebody has left, and those that we wait for may have missed it: fails if it failed them.
  void ask_who_failed();
  /// A transport error waits for the session's word, which tells more; without one it is the
  /// failure.
  void heed_suspicion(Clock::time_point now, Clock::time_point end);

  // barrier_missing.cpp
  void report(BarrierReport::Stand stand, std::vector<Rank> ranks = {});
  [[nodiscard]] std::optional<BarrierReport> report_of(Rank rank) const;
  [[nodiscard]] std::vector<Rank> awaited() const;
  [[nodiscard]] std::vector<RankState> missing() const;
  [[nodiscard]] BarrierError late() const;

  const std::shared_ptr<GroupLife> life_;
  Group& group_;  ///< While life_ says so.
  const std::uint32_t generation_;
  const std::vector<Rank> ranks_;
  const BarrierAlgorithm algorithm_;
  const std::uint16_t tag_;
  std::vector<Move> moves_{};

  Stage stage_ = Stage::idle;
  std::size_t next_ = 0;  ///< Move.
  BarrierState* next_open_ = nullptr;
  Error failure_{};  ///< Of a failed one.

  // Of a barrier that takes long.
  std::optional<Suspicion> suspicion_{};
  std::uint32_t changes_ = 0;       ///< That were looked at.
  std::optional<Error> gone_{};     ///< A member has left in order,
  Clock::time_point gone_since_{};  ///< and since then nobody was asked who missed it.
  bool is_reported_ = false;
};

}  // namespace verbatim::detail
