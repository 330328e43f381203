// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the control verbs of the null provider share.
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "null.hpp"
#include "verbatim/provider/provider.hpp"

namespace verbatim::null {

inline NullKnobs knobs;

inline bool has_port(std::uint8_t port) { return port >= 1 && port <= knobs.device.phys_port_cnt; }

template <class T>
T* refuse(int error) {
  errno = error;
  return nullptr;
}

/// Whether the object with this count of events may be destroyed. Its events that nobody has taken
/// go with it. Like libibverbs, this waits for those that are being handled, but with a limit, so
/// that a test notices a lost acknowledgement.
[[nodiscard]] bool forget_events(ibv_context* context, const std::atomic<int>& count);

/// The verbs of completion queues, queue pairs and shared receive queues.
void add_queues(Provider& table);

}  // namespace verbatim::null
