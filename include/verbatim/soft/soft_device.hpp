// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How the software device behaves in this process: immediately or later, well or badly.
///
/// Programs open "soft0" like any device; this header is for tests. Its settings apply to all
/// software devices of the process, from the next operation on. The environment can set the same:
/// `VERBATIM_SOFT_MODE=deferred`, `VERBATIM_SOFT_SEED=42`, `VERBATIM_SOFT_FAULTS=…`.
#include <chrono>
#include <cstdint>

#include "verbatim/base/ids.hpp"
#include "verbatim/soft/fault_plan.hpp"

namespace verbatim::soft {

enum class Mode : std::uint8_t {
  immediate,  ///< A request runs while it is posted.
  deferred,   ///< The whole request (reading its memory, moving data, completing) runs later, at a
              ///< random time; in order within a queue pair, interleaved between queue pairs. A
              ///< buffer that is changed too early arrives changed, as on a real device.
};

struct Behaviour {
  Mode mode = Mode::immediate;
  std::uint64_t seed = 1;  ///< For the times in deferred mode.
  std::chrono::nanoseconds max_delay = std::chrono::microseconds{200};
  FaultPlan faults{};
};

/// Replaces the behaviour of this process, and restarts the counts of operations and calls.
void set_behaviour(Behaviour behaviour);

/// How this process reaches the memory of another. Only for queries.
enum class MemoryPath : std::uint8_t {
  mapped,   ///< Memory of a Buffer: peers map it. No system call per operation.
  process,  ///< Other memory: process_vm_readv and process_vm_writev.
  relay,    ///< Both denied: the peer's helper thread copies.
};
/// The paths to `Buffer` memory and to other memory of the process that owns the queue pair with
/// this number, as found by trying.
struct MemoryPaths {
  MemoryPath buffer = MemoryPath::mapped;
  MemoryPath other = MemoryPath::process;
};
[[nodiscard]] Result<MemoryPaths> memory_paths(QpNumber peer);

}  // namespace verbatim::soft
