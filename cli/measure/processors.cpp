// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/processors.hpp"

#include <sched.h>

#include <cstddef>

namespace verbatim::cli {

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> result;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return result;
  for (std::size_t each = 0; each < CPU_SETSIZE; ++each)
    if (CPU_ISSET(each, &set)) result.push_back(static_cast<int>(each));
  return result;
}

bool pin_to(int processor) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (processor < 0 || processor >= CPU_SETSIZE) return false;
  CPU_SET(static_cast<std::size_t>(processor), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace verbatim::cli
