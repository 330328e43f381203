// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Operations with many peers that own their memory.
///
///     auto sending = multi.multicast(peers, std::move(buffer));
///     auto [buffer, result] = sending.wait();
///
/// Like one Pending per peer: the memory always comes back, and dropping a handle costs nothing,
/// because the slots keep the memory until the completions come.
///
/// Ownership: move-only; it may outlive the MultiChannel.
/// Threads:   that of the reactor.
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/multi/bulk_error.hpp"
#include "verbatim/multi/peer.hpp"
#include "verbatim/reactor/await.hpp"

namespace verbatim {

class MultiChannel;

namespace detail {

/// One point in time for several waits in a row; without a deadline, the channel's own timeout from
/// `start` on.
[[nodiscard]] Deadline fixed(ChannelCore& channel, Deadline deadline,
                             std::chrono::steady_clock::time_point start) noexcept;
/// Adds it if it is the first of its peer.
void add_failure(BulkResult& result, const PeerError& failure);

}  // namespace detail

/// The outcome of scatter() or gather(), in the order of the call.
template <class Owner>
struct [[nodiscard]] BulkCompleted {
  std::vector<Completed<Owner>> each{};
  BulkResult result{};
};

template <class Owner>
class [[nodiscard("dropping it gives the memory away; wait() brings it back")]] PendingBulk {
 public:
  /// Whether wait() would return at once. Polls the completion queue.
  [[nodiscard]] bool ready() noexcept {
    for (Entry& entry : entries_)
      if (!entry.pending.ready()) return false;
    return true;
  }
  /// Waits until the device is done with all of the memory. A late peer ends only its own channel,
  /// with `timed_out`. Call it once.
  [[nodiscard]] BulkCompleted<Owner> wait(Deadline deadline = {}) {
    BulkCompleted<Owner> done;
    done.each.reserve(entries_.size());
    wait_for(deadline, done.result,
             [&](Completed<Owner> each) { done.each.push_back(std::move(each)); });
    return done;
  }

 private:
  friend class MultiChannel;
  template <class>
  friend class PendingMulticast;
  struct Entry {
    PeerIndex peer;
    Pending<Owner> pending;
  };
  template <class Take>
  void wait_for(Deadline deadline, BulkResult& result, Take take) {
    const auto start = std::chrono::steady_clock::now();
    for (Entry& entry : entries_) {
      const WrId id = entry.pending.id();
      // The channel of a refused operation may be gone.
      const Deadline end =
          entry.pending.posted()
              ? detail::fixed(detail::PendingAccess::channel(entry.pending), deadline, start)
              : deadline;
      auto done = entry.pending.wait(end);
      if (!done.result && !refused_)
        detail::add_failure(result, {{done.result.error(), {}, id}, entry.peer});
      take(std::move(done));
    }
    entries_.clear();
    if (refused_) detail::add_failure(result, *refused_);
  }
  std::vector<Entry> entries_{};
  std::optional<PeerError> refused_{};  ///< There is no such peer: nothing was posted.
};

/// The outcome of multicast(). Two parts: `auto [buffer, result] = pending.wait()`.
template <class Owner>
struct [[nodiscard]] MulticastCompleted {
  Owner buffer;  ///< Null if a device could not be stopped: see pending.hpp.
  BulkResult result{};
};

/// The operations share the memory: a Buffer, or a std::shared_ptr<const Buffer>.
template <class Owner>
class [[nodiscard("dropping it gives the memory away; wait() brings it back")]] PendingMulticast {
  static constexpr bool kIsShared = !std::is_same_v<Owner, Buffer>;

 public:
  /// As in PendingBulk.
  [[nodiscard]] bool ready() noexcept { return sends_.ready(); }
  [[nodiscard]] MulticastCompleted<Owner> wait(Deadline deadline = {}) {
    // The result is built in place: g++ 12 warns about moving it.
    const auto drop = [](const auto&) {};
    if constexpr (kIsShared) {
      MulticastCompleted<Owner> done{std::move(buffer_)};
      sends_.wait_for(deadline, done.result, drop);
      return done;
    } else {
      MulticastCompleted<Owner> done{std::move(*buffer_)};
      sends_.wait_for(deadline, done.result, drop);
      // A device that could not be stopped has it: it stays allocated for ever.
      if (buffer_.use_count() != 1) std::swap(done.buffer, *buffer_);
      return done;
    }
  }

 private:
  friend class MultiChannel;
  std::conditional_t<kIsShared, Owner, std::shared_ptr<Buffer>> buffer_{};
  PendingBulk<std::shared_ptr<const Buffer>> sends_{};
};

}  // namespace verbatim
