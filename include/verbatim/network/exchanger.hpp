// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A rank's session with the coordinator of its job: who is there, what ranks tell each
/// other, and who is gone. Encrypted and authenticated by the job's Secret.
///
/// Every rank makes each collective call (exchange, meet, regroup), in the same order. A call that
/// times out names the missing ranks and breaks nothing: the same call, made again, continues with
/// what was given the first time. A call that a loss makes impossible is `peer_lost` with the first
/// rank that was lost; if a rank left properly, it is `peer_closed`. After a loss, collective calls
/// fail until regroup(). If the coordinator is gone, calls are `peer_lost` with field
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
  std::uint64_t host_high = 0;  ///< The machine: 128 bits that change when it boots.
  std::uint64_t host_low = 0;
  std::uint16_t processors = 0;  ///< Of that machine.
  std::vector<std::byte> record{};
  bool present = false;  ///< False: lost or left before this generation began.
};

enum class Departed : std::uint8_t {
  left,              ///< Left properly.
  connection_ended,  ///< Its process ended, or closed the session without leaving.
  silent,            ///< Its process is stopped, its host or network gone.
  dropped,           ///< This rank itself: it was silent, and the others went on.
  coordinator,       ///< The coordinator is gone; `rank` is kNoRank.
};
inline constexpr Rank kNoRank = std::numeric_limits<Rank>::max();

struct Departure {
  Rank rank = kNoRank;
  Departed why = Departed::left;
  friend bool operator==(const Departure&, const Departure&) noexcept = default;
};

struct JoinOptions {
  std::vector<std::byte> record = {};  ///< What all ranks learn about this one: at most 512 bytes.
  std::uint8_t algorithm = 0;          ///< Must be the same at every rank.
  std::chrono::nanoseconds timeout = std::chrono::seconds{30};
  std::chrono::nanoseconds detect =
      std::chrono::seconds{5};  ///< After this much silence the coordinator is gone.
};

struct PeerRecord {
  Rank rank = 0;
  std::vector<std::byte> bytes{};
};
struct PeerOffer {
  Rank rank = 0;
  std::vector<std::byte> common{};  ///< The same for all ranks that it made an offer to.
  std::vector<std::byte> own{};     ///< For this rank.
};

inline constexpr Timeout kSessionTimeout = std::chrono::seconds{30};

class Exchanger {
 public:
  /// Returns when all ranks are there. Dials until the time-out, so the coordinator may start
  /// later. A process that takes the place of a lost rank waits until the others regroup.
  [[nodiscard]] static Result<Exchanger> join(const Identity& identity, const JoinOptions& options);
  Exchanger(Exchanger&&) noexcept;
  Exchanger& operator=(Exchanger&&) noexcept;
  /// If leave() was not called before, the others see a loss.
  ~Exchanger();

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] Rank world() const noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;  ///< Starts at 1.
  [[nodiscard]] std::span<const Member> members()
      const noexcept;  ///< By rank. Valid until regroup().

  /// What each rank gave, by rank; empty for ranks that are not present. At most 15 MiB together.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> exchange(
      std::span<const std::byte> bytes, Timeout limit = kSessionTimeout);
  /// The same with plain data. A rank that is not present gives a T{}.
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

  /// Offers something to each of the ranks in `to`, and `common` to all of them. Returns what they
  /// offered to this rank, in the order of `to`, when all of them have. After a time-out, call it
  /// again with the same ranks to continue.
  [[nodiscard]] Result<std::vector<PeerOffer>> offer(std::span<const std::byte> common,
                                                     std::span<const PeerRecord> to,
                                                     Timeout limit = kSessionTimeout);
  /// Returns when every rank that has not left has called it.
  [[nodiscard]] Result<void> meet(Timeout limit = kSessionTimeout);

  /// Increases with each departure. One relaxed load.
  [[nodiscard]] std::uint32_t changes() const noexcept {
    return changes_->load(std::memory_order_relaxed);
  }
  /// The departures of this generation, in the order in which the coordinator decided.
  [[nodiscard]] std::vector<Departure> departures() const;
  /// Called in the session's thread for each departure, including those already known. It must not
  /// call this object, except changes() and departures(), nor wait for a thread that does.
  void on_departure(std::function<void(const Departure&)> call);
  /// Readable (epoll) from a departure until the next departures().
  [[nodiscard]] int fd() const noexcept;
  /// To confirm a suspicion: the first loss, as soon as there is one. If there is none until the
  /// time-out, the first rank that left; else `timed_out`.
  [[nodiscard]] Result<Departure> verdict(Timeout limit);

  /// What ask() returns to others; at most 256 bytes, else `limit_exceeded`. At any time.
  Result<void> report(std::span<const std::byte> state);
  /// The last report of a rank. Its session answers, whatever its other threads are doing.
  [[nodiscard]] Result<std::vector<std::byte>> ask(Rank rank, Timeout limit);

  /// The survivors, and processes that took the place of lost ranks, begin the next generation.
  /// Unfinished calls of the previous one are forgotten. An empty record keeps the old one.
  [[nodiscard]] Result<void> regroup(Timeout limit, std::vector<std::byte> record = {});
  /// Leaves properly, and waits until all ranks have left or are lost. After that, other calls are
  /// `closed`. A second call does nothing, or continues to wait if the first timed out.
  [[nodiscard]] Result<void> leave(Timeout limit);

  /// Bytes that the session has sent and received so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

 private:
  explicit Exchanger(std::unique_ptr<detail::Session> session) noexcept;
  static Error different_size(std::size_t theirs, std::size_t ours) noexcept;
  std::unique_ptr<detail::Session> session_;
  const std::atomic<std::uint32_t>* changes_;
};

}  // namespace verbatim
