// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Who uses the software device: the processes of this user, from outside.
///
/// Reads their files and maps nothing: nobody notices, and nothing is changed. What is there may
/// change while it is read, and is not trusted; a figure can be old or wrong, and no more.
///
/// Threads: any.
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"

namespace verbatim::soft {

struct InspectedQueuePair {
  QpNumber number{};
  std::uint32_t state = 0;            ///< As ibv_qp_state.
  std::uint32_t type = 0;             ///< As ibv_qp_type.
  QpNumber peer{};                    ///< 0 where there is none.
  std::uint32_t receives_posted = 0;  ///< Both run on, and round.
  std::uint32_t receives_taken = 0;   ///< By messages of peers.
};

struct InspectedProcess {
  std::uint32_t slot = 0;
  pid_t pid = 0;                ///< 0: of another pid namespace, so that it says nothing here.
  bool is_alive = false;        ///< Else it was killed, and nobody has cleared up yet.
  bool is_other_build = false;  ///< Its segment has another layout: nothing below is known.
  std::vector<InspectedQueuePair> queue_pairs{};
  std::uint32_t completion_queues = 0;
  std::uint64_t completions =
      0;  ///< Taken of those that peers wrote; each queue's part goes round.
  std::uint32_t regions = 0;
  std::uint64_t region_bytes = 0;  ///< Registered; parts may be counted twice.
  std::uint64_t object_bytes = 0;  ///< Of Buffers, which peers map.
  std::uint64_t file_bytes = 0;    ///< Memory that its files in the directory take.
};

struct Inspection {
  std::string directory{};  ///< Where it looked.
  std::vector<InspectedProcess> processes{};
};

/// In the order of their slots. No directory: no process.
[[nodiscard]] Result<Inspection> inspect();

}  // namespace verbatim::soft
