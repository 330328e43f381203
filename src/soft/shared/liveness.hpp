// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Whether a process is alive: the kernel knows, by the lock on its segment's file.
///
/// Owns the open segment file of one process. Once dead, always dead: a file that was found
/// unlocked, or shorter than a segment, is never checked again, whoever uses its slot later.
///
/// Any thread asks; no lock is taken. was_alive_lately() is hot: a clock and a load.
///
/// Limits: a process may die, and its file be truncated, between the check and the use of the
/// answer. A copy into a dead process's segment lands nowhere. fault_guard.hpp handles a touch of a
/// file that is truncated just then. A pid would have to be reused within that moment.
#include <atomic>
#include <cstdint>

namespace verbatim::engine {

class Liveness {
 public:
  /// For ourselves: never dead.
  Liveness() noexcept : fd_(-1), alive_until_(~std::uint64_t{0}) {}
  /// For another process; the file is closed with this object.
  explicit Liveness(int segment_file) noexcept : fd_(segment_file) {}
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  /// Asks the kernel (about 0.4 us).
  [[nodiscard]] bool is_alive() noexcept;
  /// Only checks its lock (about 0.2 us): for callers that use nothing but its pid.
  [[nodiscard]] bool holds_lock() noexcept;
  /// Like is_alive(), but asks at most once per millisecond: for the data path.
  [[nodiscard]] bool seems_alive() noexcept { return was_alive_lately() || ask(); }
  [[nodiscard]] bool was_alive_lately() const noexcept {
    return ticks() < alive_until_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_known_dead() const noexcept { return dead_.load(); }

 private:
  static constexpr std::uint64_t kTicksPerQuestion = 2'000'000;  // About a millisecond.
  static std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    std::uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value * 32;  // It runs at tens of MHz.
#endif
  }
  [[gnu::cold]] bool ask() noexcept;
  bool bury() noexcept;

  int fd_;
  std::atomic<bool> dead_{false};
  std::atomic<std::uint64_t> alive_until_{0};  // Until then (ticks) it does not ask.
};

/// When the process started, in clock ticks; 0 if there is no such process. Together with the pid
/// it identifies a process permanently.
[[nodiscard]] std::uint64_t start_time_of(std::uint32_t pid) noexcept;
/// Whether a signal or a debugger has stopped the process.
[[nodiscard]] bool is_process_stopped(std::uint32_t pid) noexcept;
/// The inode of our pid namespace.
[[nodiscard]] std::uint64_t own_pid_namespace() noexcept;

}  // namespace verbatim::engine
