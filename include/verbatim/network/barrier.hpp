// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A barrier: no rank leaves before all ranks have entered.
///
///     const std::array<Rank, 3> ranks{0, 1, 5};
///     auto barrier = VERBATIM_TRY(node.make_barrier(ranks));
///     VERBATIM_TRY(barrier());  // Or: barrier.arrive(), other work, barrier.wait().
///
/// What it orders. A rank that has left knows that all ranks have entered, and that what they wrote
/// to their own memory before is written. Data that a rank wrote into the memory of rank r before
/// it entered is there when r has left only if
///   - it was complete when the rank entered: `{.fence = true}` waits for that, or
///   - the rank notified r over the same channel: that is one queue pair, and keeps the order. The
///     algorithm decides who notifies whom, so do not rely on it.
/// With relaxed ordering, or over several rails, a completion does not prove that the data is in
/// the peer's memory: read eight bytes back before you enter.
///
/// Each rank creates its own object, without a message. A barrier belongs to the generation of its
/// group: after a regroup() it is `stale`.
///
/// When it fails:
///   `timed_out`        a rank has not come: `missing` says which. Nothing is lost: call wait()
///                      again.
///   `peer_lost`        a member is gone, `value` says which; `peer_closed` if it left properly.
///                      Barriers with that rank fail until regroup().
///   `incompatible`     rank `value` is at a barrier of other ranks, or of another algorithm.
///   `busy`             the previous one, or another with some of these ranks, is not over.
/// After any failure except `timed_out` and `busy` the barrier is over, and nobody knows how far
/// the others have come. Until regroup(), barriers that share another rank with it fail. The same
/// is true if a Barrier is destroyed before it is over.
///
/// Ownership: move-only. Without its node it is `closed`.
/// Threads:   those of its channels: one at a time.
#include "verbatim/base/language.hpp"

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/network/barrier_schedule.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim {

namespace detail {
class BarrierState;
struct Group;
}  // namespace detail

struct BarrierOptions {
  /// First waits until everything that this rank has sent, to any rank of the group, is complete.
  bool fence = false;
};

/// What is known about a rank that did not come.
struct RankState {
  enum class Activity : std::uint8_t {
    unknown,    ///< It did not answer in time, or there is no session to ask.
    elsewhere,  ///< It does not wait at a barrier.
    at_other,   ///< It waits at another barrier.
  };
  Rank rank = 0;
  Activity activity = Activity::unknown;
  std::uint64_t notices = 0;            ///< Notices that came from it in this generation.
  std::chrono::nanoseconds waiting{0};  ///< How long it has waited at the other barrier.
};

struct BarrierError {
  Error error;
  /// For `timed_out`: the ranks that have not come, as far as known.
  std::vector<RankState> missing{};

  operator Error() const noexcept { return error; }
  friend bool operator==(const BarrierError& failed, Errc expected) noexcept {
    return failed.error == expected;
  }
};
using BarrierResult = std::expected<void, BarrierError>;

/// As with a Result: `if (barrier() == Errc::timed_out)`.
[[nodiscard]] inline bool operator==(const BarrierResult& result, Errc&& expected) noexcept {
  return !result.has_value() && result.error() == expected;
}

/// One line: the error, then each missing rank and what it does.
[[nodiscard]] std::string to_string(const BarrierError& error);

class Barrier {
 public:
  /// `ranks` must be sorted, without duplicates, include this rank, and be in this world; else
  /// `invalid_argument`. With fewer than two ranks there is nothing to wait for. `not_ready` if a
  /// rank that this one must notify is not connected.
  [[nodiscard]] static Result<Barrier> create(detail::Group& group, std::span<const Rank> ranks,
                                              BarrierAlgorithm algorithm = {});

  /// arrive(), then wait(). Default deadline: a channel's timeout.
  [[nodiscard]] BarrierResult operator()(Deadline deadline = {}, BarrierOptions options = {});

  /// Enters the barrier. Waits only for the fence. `busy` changes nothing.
  [[nodiscard]] Result<void> arrive(BarrierOptions options = {});
  /// Whether wait() would return at once. Also makes progress: call it now and then, or the others
  /// wait for this rank until it calls wait().
  [[nodiscard]] bool ready() noexcept;
  /// Waits until all have come. `not_ready` without an arrive() before.
  [[nodiscard]] BarrierResult wait(Deadline deadline = {});

  [[nodiscard]] std::span<const Rank> ranks() const noexcept;
  /// Never `automatic`.
  [[nodiscard]] BarrierAlgorithm algorithm() const noexcept;

  Barrier(Barrier&&) noexcept;
  Barrier& operator=(Barrier&&) noexcept;
  ~Barrier();

 private:
  explicit Barrier(std::unique_ptr<detail::BarrierState> state) noexcept;
  [[nodiscard]] detail::BarrierState& usable() const;
  std::unique_ptr<detail::BarrierState> state_;
};

}  // namespace verbatim
