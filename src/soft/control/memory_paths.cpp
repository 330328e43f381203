// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells the program how the device reaches a peer's memory (verbatim/soft/soft_device.hpp).
#include "soft/shared/engine.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::soft {

Result<MemoryPaths> memory_paths(QpNumber number) {
  auto running = engine::Engine::get();
  if (!running) return std::unexpected(running.error());
  const engine::PeerRef peer =
      (*running)->peers().find(engine::slot_of(static_cast<std::uint32_t>(number)));
  if (!peer)
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = "memory_paths",
                                 .field = "queue pair",
                                 .value = static_cast<std::uint64_t>(number)});
  MemoryPaths paths;
  paths.other =
      peer->memory_path() == engine::MemoryPath::relay ? MemoryPath::relay : MemoryPath::process;
  paths.buffer = engine::memory_policy().map_objects ? MemoryPath::mapped : paths.other;
  return paths;
}

}  // namespace verbatim::soft
