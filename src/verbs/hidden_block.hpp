// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Lets AddressSanitizer find code that kept a view of a block that was returned.
#include "verbatim/base/sanitizers.hpp"
#include "verbatim/verbs/buffer.hpp"

#if VERBATIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace verbatim::detail {

inline void hide([[maybe_unused]] const BufferBlock& block) noexcept {
#if VERBATIM_ASAN
  ASAN_POISON_MEMORY_REGION(block.data, block.size);
#endif
}
/// Usable again.
inline void show([[maybe_unused]] const BufferBlock& block) noexcept {
#if VERBATIM_ASAN
  ASAN_UNPOISON_MEMORY_REGION(block.data, block.size);
#endif
}

}  // namespace verbatim::detail
