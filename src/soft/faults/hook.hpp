// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Deferred mode and scripted faults, behind one flag that is false on ordinary days.
///
/// Owns the fault plan, its counters and the state of the port: one for the process. Any thread
/// that posts, retries or makes a control call. Takes `script`, last of all. is_unusual() is hot;
/// the rest runs only on unusual days.
#include <atomic>
#include <cstdint>
#include <optional>

#include "verbatim/soft/soft_device.hpp"

namespace verbatim::engine {

/// False: every request runs while it is posted, and nothing is scripted.
extern std::atomic<bool> unusual;
[[nodiscard]] inline bool is_unusual() noexcept { return unusual.load(std::memory_order_relaxed); }

/// The error in VERBATIM_SOFT_FAULTS, if any.
[[nodiscard]] std::optional<Error> environment_error();

/// Keeps the script consistent while a fork happens.
void lock_script() noexcept;
void unlock_script() noexcept;

/// What happens to one operation. Several faults may name the same one.
struct Script {
  std::uint64_t not_before_ns = 0;
  std::uint32_t drops = 0;
  std::uint32_t no_receives = 0;
  std::uint8_t status = 0;         ///< Not 0: fail with it.
  std::uint64_t port_down_ns = 0;  ///< For how long.
  bool overrun = false;
  bool remove_device = false;
};
/// Counts an operation, and returns what happens to it.
[[nodiscard]] Script next_operation() noexcept;
/// Counts a control call: the errno to fail with, or 0.
[[nodiscard]] int next_call() noexcept;

/// Until when the port is down (steady clock), or 0.
[[nodiscard]] std::uint64_t port_down_until() noexcept;
void take_port_down(std::uint64_t until_ns) noexcept;
/// True once, when the port is up again after having been down.
[[nodiscard]] bool port_came_up(std::uint64_t now_ns) noexcept;

}  // namespace verbatim::engine
