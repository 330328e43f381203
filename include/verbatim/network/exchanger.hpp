// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A rank's session with the coordinator of its job: who is there, what they have to tell
/// each other, and who is gone. Encrypted and authenticated by the job's Secret.
///
/// A collective call (exchange, meet, regroup) is made by every rank, in the same order. One that
/// times out names the ranks that are missing and breaks nothing: the same call, made again, goes
/// on where it was, with what was given the first time. One that a loss makes impossible is
/// `peer_lost` with the first rank that was lost; a rank that left in order is `peer_closed`. After
/// a loss collective calls fail until regroup(). The coordinator's end is `peer_lost` with field
/// "coordinator". A process that was dropped while it did not answer gets `peer_lost` with its own
/// rank.
///
/// Threads: one at a time; changes() and departures() from any. The session's own thread sleeps in
/// epoll and blocks all signals. In a forked child every call is `forked`.
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/network/identity.hpp"
#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim {

namespace detail {
class Session;
}

struct Member {
  Rank rank = 0;
  std::uint64_t host_high = 0;  ///< Which machine: 128 bits that change when it boots.
  std::uint64_t host_low = 0;
  std::uint16_t processors = 0;  ///< Of that machine.
  std::vector<std::byte> record{};
  bool present = false;  ///< False: lost or left before this generation began.
};

enum class Departed : std::uint8_t {
  left,              ///< Said goodbye.
  connection_ended,  ///< Its process ended, or closed the session without a word.
  silent,            ///< Its process is stopped, its host or network gone.
  dropped,           ///< We ourselves: the others went on, because we were silent.
  coordinator,       ///< The coordinator is gone; `rank` is kNoRank.
};
inline constexpr Rank kNoRank = std::numeric_limits<Rank>::max();

struct Departure {
  Rank rank = kNoRank;
  Departed why = Departed::left;
  friend bool operator==(const Departure&, const Departure&) noexcept = default;
};

struct JoinOptions {
  std::vector<std::byte> record = {};  ///< What everybody gets to know of us: at most 512 bytes.
  std::uint8_t algorithm = 0;          ///< Must be the same at every rank.
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};
  std::chrono::nanoseconds detect = std::chrono::seconds{5};  ///< A silent coordinator is gone.
};

struct PeerRecord {
  Rank rank = 0;
  std::vector<std::byte> bytes{};
};
struct PeerOffer {
  Rank rank = 0;
  std::vector<std::byte> common{};  ///< The same for all to whom that rank offered.
  std::vector<std::byte> own{};     ///< For us.
};

inline constexpr Timeout kSessionTimeout = std::chrono::seconds{30};

class Exchanger {
 public:
  /// Returns when everybody is there. Dials until the time-out, so that the coordinator may come up
  /// later. A process that takes the place of a lost rank waits until the others regroup.
  [[nodiscard]] static Result<Exchanger> join(const Identity& identity, const JoinOptions& options);
  Exchanger(Exchanger&&) noexcept;
  Exchanger& operator=(Exchanger&&) noexcept;
  /// Without leave() before it, the others see a loss.
  ~Exchanger();

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank world() const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;         ///< From 1 on.
  [[nodiscard]] std::span<const Member> members() const noexcept;  ///< By rank. Until regroup().

  /// What each rank gave, by rank; nothing of ranks that are not present. Together at most 15 MiB.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> exchange(
      std::span<const std::byte> bytes, Timeout limit = kSessionTimeout);
  /// The same with plain data. A rank that is not present has a T{}.
  template <RemoteLayout T>
    requires(!std::convertible_to<const T&, std::span<const std::byte>>)
  [[nodiscard]] Result<std::vector<T>> exchange(const T& record, Timeout limit = kSessionTimeout) {
    const auto all = exchange(std::as_bytes(std::span{&record, 1}), limit);
    if (!all) return std::unexpected(all.error());
    std::vector<T> records(all->size());
    for (std::size_t rank = 0; rank < all->size(); ++rank) {
      const std::vector<std::byte>& bytes = (*all)[rank];
      if (!members()[rank].present) continue;
      if (bytes.size() != sizeof(T))
        return std::unexpected(different_size(bytes.size(), sizeof(T)));
      std::memcpy(&records[rank], bytes.data(), sizeof(T));
    }
    return records;
  }

  /// Something for each of the ranks in `to`, and `common` for all of them. Returns what they
  /// offered to us, in the order of `to`, when each of them has. One that times out goes on when it
  /// is made again with the same ranks.
  [[nodiscard]] Result<std::vector<PeerOffer>> offer(std::span<const std::byte> common,
                                                     std::span<const PeerRecord> to,
                                                     Timeout limit = kSessionTimeout);
  /// Returns when every rank that has not left has called it.
  [[nodiscard]] Result<void> meet(Timeout limit = kSessionTimeout);

  /// Grows with each departure. One relaxed load.
  [[nodiscard]] std::uint32_t changes() const noexcept {
    return changes_->load(std::memory_order_relaxed);
  }
  /// Of this generation, in the order in which the coordinator decided.
  [[nodiscard]] std::vector<Departure> departures() const;
  /// Called in the session's thread for each, also for those that are known already. It must not
  /// call this object, other than changes() and departures(), nor wait for who does.
  void on_departure(std::function<void(const Departure&)> call);
  /// Readable (epoll) from a departure until the next departures().
  [[nodiscard]] int fd() const noexcept;
  /// For a suspicion: the first loss, as soon as there is one. If there is none until the time-out,
  /// the first rank that left; else `timed_out`.
  [[nodiscard]] Result<Departure> verdict(Timeout limit);

  /// What ask() gives to others; at most 256 bytes, else `limit_exceeded`. At any time.
  Result<void> report(std::span<const std::byte> state);
  /// The last report of a rank: answered by its session, whatever its threads are doing.
  [[nodiscard]] Result<std::vector<std::byte>> ask(Rank rank, Timeout limit);

  /// The survivors, and processes that took the place of lost ranks, begin the next generation.
  /// Calls of the former one that were not over are forgotten. An empty record stays as it was.
  [[nodiscard]] Result<void> regroup(Timeout limit, std::vector<std::byte> record = {});
  /// Says goodbye, and waits until everybody has, or is lost. Then other calls are `closed`. Called
  /// again, it does nothing, or goes on to wait if it timed out.
  [[nodiscard]] Result<void> leave(Timeout limit);

  /// That the session has sent and received so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

 private:
  explicit Exchanger(std::unique_ptr<detail::Session> session) noexcept;
  static Error different_size(std::size_t theirs, std::size_t ours) noexcept;
  std::unique_ptr<detail::Session> session_;
  const std::atomic<std::uint32_t>* changes_;
};

}  // namespace verbatim
