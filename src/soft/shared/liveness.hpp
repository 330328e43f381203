// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Whether a process lives: asked of the kernel, by the lock on its segment's file.
///
/// Owns the open segment file of one process. Once dead, always dead: a file that was found
/// unlocked, or shorter than a segment, is never asked about again, whoever uses its slot later.
///
/// Any thread asks; no lock is taken. was_alive_lately() is hot: a clock and a load.
///
/// What remains: a process may die, and its file be cut short, between the question and the use of
/// the answer. A copy into a dead process's segment lands nowhere; a touch of a file that somebody
/// cuts short just then is what fault_guard.hpp is for; a pid would have to be used again within
/// that moment.
#include <atomic>
#include <cstdint>

namespace verbatim::engine {

class Liveness {
 public:
  /// Our own: never dead.
  Liveness() noexcept : fd_(-1), alive_until_(~std::uint64_t{0}) {}
  /// Of another process; the file is closed with this object.
  explicit Liveness(int segment_file) noexcept : fd_(segment_file) {}
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  /// Asks the kernel (about 0.4 us).
  [[nodiscard]] bool is_alive() noexcept;
  /// Its lock alone (about 0.2 us): for who uses nothing but its pid.
  [[nodiscard]] bool holds_lock() noexcept;
  /// As is_alive(), but asks at most once a millisecond: for the data path.
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
  std::atomic<std::uint64_t> alive_until_{0};  // Until then (ticks) nobody asks.
};

/// When the process started, in clock ticks; 0 if there is no such process. With the pid it names a
/// process for ever.
[[nodiscard]] std::uint64_t start_time_of(std::uint32_t pid) noexcept;
/// Whether a signal or a debugger has stopped the process.
[[nodiscard]] bool is_process_stopped(std::uint32_t pid) noexcept;
/// The inode of our pid namespace.
[[nodiscard]] std::uint64_t own_pid_namespace() noexcept;

}  // namespace verbatim::engine
