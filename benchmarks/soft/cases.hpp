// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The cases between two processes, and the limits with which they are compared.
#include <string_view>

#include "side.hpp"

namespace verbatim::bench {

enum class Verb : std::uint8_t { write, read, send };
enum class Figure : std::uint8_t { latency, bandwidth, rate };

/// In which order a side answers a message. perftest first posts the receive again and reads the
/// clock, while the other side waits. The hurried order answers first.
enum class Manner : std::uint8_t { hurried, perftest };

struct Case {
  Verb verb;
  Figure figure;
  std::size_t bytes;
  Memory memory;
  Manner manner;
};

/// Runs one side; both processes call it. Returns the figure in us, MiB/s or M/s; 0 for right. Ends
/// the program if the data that arrived is not the data that was sent.
[[nodiscard]] double run(const Case& each, Role role, int socket);

/// Half the time in which a cache line goes to another core and back, in us: no message between two
/// cores can be faster. Both processes call it, with the same shared memory.
[[nodiscard]] double hand_off(Role role, int shared_fd);
/// The same, with a bare process_vm_writev into the other's private memory.
[[nodiscard]] double hand_off_by_call(Role role, int shared_fd);
/// memcpy of a warm source into memory that another process could map, in MiB/s.
[[nodiscard]] double copy(std::size_t bytes, int shared_fd);

}  // namespace verbatim::bench
