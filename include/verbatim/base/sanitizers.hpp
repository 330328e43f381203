// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which checker this translation unit is compiled for: macros that are 0 or 1.
///
/// g++ defines __SANITIZE_*, clang has __has_feature; these macros cover both. A program and its
/// libraries must agree, or sanitizers give false reports.
#include "verbatim/base/language.hpp"

#if defined(__has_feature)
#define VERBATIM_HAS_FEATURE(name) __has_feature(name)
#else
#define VERBATIM_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || VERBATIM_HAS_FEATURE(address_sanitizer)
#define VERBATIM_ASAN 1
#else
#define VERBATIM_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || VERBATIM_HAS_FEATURE(thread_sanitizer)
#define VERBATIM_TSAN 1
#else
#define VERBATIM_TSAN 0
#endif

#if VERBATIM_HAS_FEATURE(memory_sanitizer)
#define VERBATIM_MSAN 1
#else
#define VERBATIM_MSAN 0
#endif

/// The extra checks of the option VERBATIM_CHECKED, as a value for `if constexpr`.
#if defined(VERBATIM_CHECKED) && VERBATIM_CHECKED
#define VERBATIM_IS_CHECKED 1
#else
#define VERBATIM_IS_CHECKED 0
#endif
