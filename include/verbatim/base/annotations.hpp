// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Spellings of compiler attributes that only one of the two compilers knows.
///
/// g++ warns about `clang::` attributes, so they are reached through macros. Annotations cost
/// nothing at run time; clang uses them to warn about dangling borrows.

#if defined(__clang__)
#define VERBATIM_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define VERBATIM_LIFETIMEBOUND
#endif

/// A failure path: out of line, so that the success path reads (and runs) straight down.
#define VERBATIM_COLD [[gnu::cold, gnu::noinline]]

/// The data path. clang 19 leaves some of these as calls unless told.
#define VERBATIM_HOT [[gnu::always_inline]] inline
