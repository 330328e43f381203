// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dma_backends.hpp"

#if VERBATIM_MEMCHECK

#include <algorithm>

#if VERBATIM_MSAN
#include <sanitizer/msan_interface.h>
#else
#include <valgrind/memcheck.h>
#endif

namespace verbatim::dma::detail {
namespace {

#if VERBATIM_MSAN

/// MemorySanitizer knows undefined memory, but not inaccessible memory.
void forbid(const Range& range) noexcept { __msan_poison(range.data, range.size); }

/// If some byte is not initialised, this ends the process with a report.
bool is_initialised(const Range& range) noexcept {
  __msan_check_mem_is_initialized(range.data, range.size);
  return true;
}

void give_back(const Range& range, std::size_t written) noexcept {
  __msan_unpoison(range.data, written);
}

#else

void forbid(const Range& range) noexcept { VALGRIND_MAKE_MEM_NOACCESS(range.data, range.size); }

bool is_initialised(const Range& range) noexcept {
  return VALGRIND_CHECK_MEM_IS_DEFINED(range.data, range.size) == 0;
}

void give_back(const Range& range, std::size_t written) noexcept {
  VALGRIND_MAKE_MEM_UNDEFINED(range.data, range.size);
  VALGRIND_MAKE_MEM_DEFINED(range.data, written);
}

#endif

}  // namespace

// Plain loops, because these frames appear in the reports.
bool memcheck_posted(const Operation& operation) noexcept {
  bool initialised = true;
  for (const Range& range : operation.covered()) {
    if (operation.direction == Direction::device_writes) {
      forbid(range);
    } else if (!is_initialised(range)) {
      initialised = false;
    }
  }
  return initialised;
}

void memcheck_completed(const Operation& operation, std::size_t bytes) noexcept {
  if (operation.direction == Direction::device_reads) return;
  for (const Range& range : operation.covered()) {
    const std::size_t written = std::min(bytes, range.size);
    give_back(range, written);
    bytes -= written;
  }
}

}  // namespace verbatim::dma::detail

#endif
