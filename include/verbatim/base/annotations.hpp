// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Spellings of compiler attributes that only one of the two compilers knows.
///
/// g++ warns about `clang::` attributes, so macros hide them. Annotations cost nothing at run time.
/// clang uses them to warn about dangling borrows and (-Wconsumed) about objects that are used
/// after they were moved away.
#include "verbatim/base/language.hpp"

#if defined(__clang__)
#define VERBATIM_LIFETIMEBOUND [[clang::lifetimebound]]
/// A type whose objects can be consumed, by a move or by a member that says so. Until then their
/// state is "unknown" and nothing finer. clang resets it to that at every call that takes an object
/// by reference, and would otherwise warn when such an object is returned or a loop repeats.
#define VERBATIM_CONSUMABLE [[clang::consumable(unknown)]]
/// A member that consumes its object.
#define VERBATIM_CONSUMES [[clang::set_typestate(consumed)]]
/// A member that makes its object usable again: an assignment.
#define VERBATIM_RESTORES [[clang::set_typestate(unknown)]]
/// A member that needs an object that is not consumed, as far as clang knows.
#define VERBATIM_UNCONSUMED_ONLY [[clang::callable_when("unconsumed", "unknown")]]
#else
#define VERBATIM_LIFETIMEBOUND
#define VERBATIM_CONSUMABLE
#define VERBATIM_CONSUMES
#define VERBATIM_RESTORES
#define VERBATIM_UNCONSUMED_ONLY
#endif

/// With VERBATIM_STRICT_LINEAR, for the destructor of a handle: only a consumed handle may be
/// destroyed, so forgetting one is an error.
#if defined(__clang__) && defined(VERBATIM_STRICT_LINEAR)
#define VERBATIM_LINEAR [[clang::callable_when("consumed")]]
#else
#define VERBATIM_LINEAR
#endif

/// A failure path: out of line, so that the success path reads (and runs) straight down.
#define VERBATIM_COLD [[gnu::cold, gnu::noinline]]

/// The data path. clang 19 leaves some of these functions as calls unless forced.
#define VERBATIM_HOT [[gnu::always_inline]] inline
