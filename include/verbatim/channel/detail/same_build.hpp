// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A program and the library that disagree about VERBATIM_CHECKED do not link.
///
/// A channel looks different in a checked build, and in one for a sanitizer, so a mixture would
/// crash. A program refers to the name below that fits how it was compiled, and the library
/// defines the one that fits how it was built. The linker's message is the name. It costs one
/// pointer in a program, and no instruction.
#include "verbatim/base/dma_model.hpp"
#include "verbatim/base/sanitizers.hpp"

#if VERBATIM_IS_CHECKED
#define VERBATIM_SAME_BUILD this_program_has_VERBATIM_CHECKED_but_its_verbatim_library_has_not
#define VERBATIM_SAME_BUILD_REFERENCE same_build_checked
#elif VERBATIM_DMA_MODELLED
#define VERBATIM_SAME_BUILD this_program_has_a_sanitizer_but_its_verbatim_library_has_not
#define VERBATIM_SAME_BUILD_REFERENCE same_build_sanitized
#else
#define VERBATIM_SAME_BUILD \
  this_program_lacks_the_VERBATIM_CHECKED_or_the_sanitizer_of_its_verbatim_library
#define VERBATIM_SAME_BUILD_REFERENCE same_build
#endif

extern "C" const char VERBATIM_SAME_BUILD;

namespace verbatim::detail {

/// Compilers and linkers keep it, though nobody reads it. Its name depends on the build, too: a
/// program of which some files are checked has two.
[[gnu::used, gnu::retain, gnu::visibility("hidden")]]
inline constexpr const char* VERBATIM_SAME_BUILD_REFERENCE = &VERBATIM_SAME_BUILD;

}  // namespace verbatim::detail

#undef VERBATIM_SAME_BUILD_REFERENCE
