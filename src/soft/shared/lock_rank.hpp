// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The order of the engine's locks: one table, and a checker for it.
///
/// A thread takes locks in the order of their ranks, lowest first, and holds only one of each rank
/// at a time. A lock that is only tried (try_lock) may be out of order, because it never waits.
/// Checked builds (VERBATIM_CHECKED, sanitizers) abort at the first lock out of order and name both
/// places; elsewhere the checker is empty.
///
/// No thread waits without a bound under a lock. If a program or a peer has to do something first
/// (acknowledge an event, leave a queue pair), the thread waits for that before it takes a lock, or
/// with a limit.
///
/// Outside the order are the locks of an extended queue pair between wr_start and wr_complete and
/// of an extended completion queue between start_poll and end_poll (the program holds them, between
/// calls), and those of the tables of indices and of spans and of the reclaimer (leaves, or only
/// tried).
///
/// Locks in shared memory name their holder (tagged_lock.hpp); waits for them have a limit.
///
/// Owns what each thread holds. Any thread. Hot if it is empty, and otherwise not.
#include <cstdint>
#include <source_location>

#include "verbatim/base/sanitizers.hpp"

namespace verbatim::engine {

/// The table: what each lock guards, then what a thread may wait for while it holds the lock.
enum class LockRank : std::uint8_t {
  engine,     ///< The process's engine: creation, end, fork. Files of the directory.
  lifetime,   ///< Objects that are looked up by index; shared to use, exclusive to free one. A peer
              ///< inside a queue pair: at most seconds.
  attention,  ///< Answering peers' cries, one thread at a time. Like lifetime.
  contexts,   ///< The list of open contexts. Nothing.
  waiting,    ///< The list of queue pairs with waiting requests. Like queue_pair.
  queue_pair,   ///< A queue pair's send side, while requests run. Relayed copies: bounded.
  receives,     ///< The receive side of a queue pair or shared queue. Nothing.
  datagrams,    ///< In shared memory: delivering a datagram to a queue pair. Like queue_pair.
  completions,  ///< In shared memory: appending to a completion ring. Nothing.
  completer,    ///< The consumer's side of a completion queue. For late rings: files.
  helper,       ///< Starting the helper thread. Nothing.
  events,       ///< A context's queue of asynchronous events. Nothing.
  channel,      ///< Removing stale messages from a completion channel. Nothing.
  ghosts,       ///< Queue pairs that ended with a stopped process inside. Files: of who is inside.
  domain,       ///< The list of a domain's queue pairs. A peer inside one: at most seconds.
  relay,        ///< In shared memory: the box for relayed copies. Its owner: bounded.
  serving,      ///< Serving our own box, also while waiting for a peer's. Nothing.
  atomics,      ///< In shared memory: atomics on memory that few map. Nothing.
  peers,        ///< The table of peers. Files of the directory.
  peer_table,   ///< The slots of that table. Nothing.
  peer,         ///< A peer's windows and channels. Files.
  objects,      ///< The table of memory objects. Files.
  segment,      ///< The allocator of our own segment. Files.
  script,       ///< The fault plan. Nothing.
};

inline constexpr bool kRanksChecked =
    VERBATIM_IS_CHECKED != 0 || VERBATIM_ASAN != 0 || VERBATIM_TSAN != 0;
/// Whether this library checks: kRanksChecked, as the library was compiled.
[[nodiscard]] bool ranks_are_checked() noexcept;

/// The checker's record of what this thread holds. Out of order: aborts and names both places.
void rank_taken(LockRank rank, bool tried, const std::source_location& where) noexcept;
void rank_released(LockRank rank) noexcept;
/// In the child of a fork: its only thread holds nothing.
void forget_ranks() noexcept;

inline void note_taken(
    LockRank rank, bool tried,
    const std::source_location& where = std::source_location::current()) noexcept {
  if constexpr (kRanksChecked) rank_taken(rank, tried, where);
}
inline void note_released(LockRank rank) noexcept {
  if constexpr (kRanksChecked) rank_released(rank);
}

/// A mutex with its place in the order.
template <LockRank Rank, class Mutex>
class Ranked {
 public:
  [[gnu::always_inline]] void lock(
      const std::source_location& where = std::source_location::current()) {
    note_taken(Rank, false, where);  // Before it waits: a deadlock would report nothing.
    mutex_.lock();
  }
  [[nodiscard, gnu::always_inline]] bool try_lock(
      const std::source_location& where = std::source_location::current()) {
    if (!mutex_.try_lock()) return false;
    note_taken(Rank, true, where);
    return true;
  }
  [[gnu::always_inline]] void unlock() {
    mutex_.unlock();
    note_released(Rank);
  }
  // For a BiasedLock.
  void lock_and_own(const std::source_location& where = std::source_location::current()) {
    note_taken(Rank, false, where);
    mutex_.lock_and_own();
  }
  [[nodiscard, gnu::always_inline]] bool try_lock_as_owner(
      const std::source_location& where = std::source_location::current()) {
    if (!mutex_.try_lock_as_owner()) return false;
    note_taken(Rank, true, where);
    return true;
  }
  [[gnu::always_inline]] void unlock_as_owner() {
    mutex_.unlock_as_owner();
    note_released(Rank);
  }
  void keep() { mutex_.keep(); }
  [[nodiscard]] bool is_held() const noexcept { return mutex_.is_held(); }
  [[nodiscard]] bool is_held_here() const noexcept { return mutex_.is_held_here(); }
  [[nodiscard]] bool is_wanted() const noexcept { return mutex_.is_wanted(); }
  void lock_shared(const std::source_location& where = std::source_location::current()) {
    note_taken(Rank, false, where);
    mutex_.lock_shared();
  }
  [[nodiscard]] bool try_lock_shared(
      const std::source_location& where = std::source_location::current()) {
    if (!mutex_.try_lock_shared()) return false;
    note_taken(Rank, true, where);
    return true;
  }
  void unlock_shared() {
    mutex_.unlock_shared();
    note_released(Rank);
  }

 private:
  Mutex mutex_;
};

}  // namespace verbatim::engine
