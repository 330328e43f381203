// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ranks meet: nobody goes on before everybody has come.
///
///     auto barrier = VERBATIM_TRY(node.barrier({0, 1, 5}));
///     VERBATIM_TRY(barrier());                 // Or: barrier.arrive(), other work,
///     barrier.wait().
///
/// What it orders. A rank that has left knows that all have entered, and what they had written to
/// their own memory by then is written. Data that a rank wrote into the memory of rank r before it
/// entered is there when r has left only if
///   - it was complete when the rank entered: `{.fence = true}` waits for that, or
///   - the rank notified r over the same channel: that is one queue pair, and keeps the order. Who
///     notifies whom is the algorithm's affair, so do not count on it.
/// With relaxed ordering, or over several rails, a completion does not prove that the data is in
/// the peer's memory: read eight bytes back before you enter.
///
/// A barrier is made by each of its ranks alone, without a message. It belongs to the generation of
/// its group: after a regroup() it is `stale`.
///
/// When it fails:
///   `timed_out`        somebody has not come: `missing` says who. Nothing is lost: call wait()
///                      again.
///   `peer_lost`        a member is gone, `value` says which; `peer_closed` if it left in order.
///                      Barriers with that rank fail until regroup().
///   `incompatible`     rank `value` is at a barrier of other ranks, or of another algorithm.
///   `busy`             the last one, or another with some of these ranks, is not over.
/// After any other than `timed_out` and `busy` it is over, and nobody knows how far the others have
/// come: until regroup(), barriers fail that share another rank with it. The same holds after a
/// Barrier was destroyed that was not over.
///
/// Ownership: move-only. Without its node it is `closed`.
/// Threads:   those of its channels: one at a time.
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
  /// First waits until all that this rank has sent, to whomever of the group, is complete.
  bool fence = false;
};

/// What a rank says that did not come.
struct RankState {
  enum class Activity : std::uint8_t {
    unknown,    ///< It did not answer in time, or there is no session to ask.
    elsewhere,  ///< It waits at no barrier.
    at_other,   ///< It waits at a barrier of others.
  };
  Rank rank = 0;
  Activity activity = Activity::unknown;
  std::uint64_t notices = 0;            ///< That came from it, in this generation.
  std::chrono::nanoseconds waiting{0};  ///< At the other barrier, so long.
};

struct BarrierError {
  Error error;
  /// Of `timed_out`: who has not come, as far as is known.
  std::vector<RankState> missing{};

  operator Error() const noexcept { return error; }
  friend bool operator==(const BarrierError& failed, Errc expected) noexcept {
    return failed.error == expected;
  }
};
using BarrierResult = std::expected<void, BarrierError>;

/// As for a Result: `if (barrier() == Errc::timed_out)`.
[[nodiscard]] inline bool operator==(const BarrierResult& result, Errc&& expected) noexcept {
  return !result.has_value() && result.error() == expected;
}

/// One line: the error, then each missing rank with what it does.
[[nodiscard]] std::string to_string(const BarrierError& error);

class Barrier {
 public:
  /// Of these ranks: sorted, each once, our own among them, all of this world; else
  /// `invalid_argument`. Less than two ranks need not wait for anybody. `not_ready` if one that we
  /// have to notify is not connected.
  [[nodiscard]] static Result<Barrier> create(detail::Group& group, std::span<const Rank> ranks,
                                              BarrierAlgorithm algorithm = {});

  /// arrive(), then wait(). Without a deadline: as long as a channel waits.
  [[nodiscard]] BarrierResult operator()(Deadline deadline = {}, BarrierOptions options = {});

  /// We have come. Never waits, unless for the fence. `busy` changes nothing.
  [[nodiscard]] Result<void> arrive(BarrierOptions options = {});
  /// Whether wait() would return at once. Does what can be done meanwhile: call it now and then, or
  /// others wait for us until we wait().
  [[nodiscard]] bool ready() noexcept;
  /// Until all have come. `not_ready` without an arrive() before.
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
