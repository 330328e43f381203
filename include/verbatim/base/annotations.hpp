// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Spellings of compiler attributes that only one of the two compilers knows.
///
/// g++ warns about `clang::` attributes, so they are reached through macros. Annotations cost
/// nothing at run time; clang uses them to warn about dangling borrows, and (-Wconsumed) about
/// things that are used after they were given away.

#if defined(__clang__)
#define VERBATIM_LIFETIMEBOUND [[clang::lifetimebound]]
/// A type whose objects are used up, by a move or by a member that says so. Otherwise their state
/// is "unknown" and no finer: clang makes it so at every call that takes one by reference, and
/// would warn when such an object is returned or a loop comes round.
#define VERBATIM_CONSUMABLE [[clang::consumable(unknown)]]
/// A member that uses its object up.
#define VERBATIM_CONSUMES [[clang::set_typestate(consumed)]]
/// A member that makes its object whole again: an assignment.
#define VERBATIM_RESTORES [[clang::set_typestate(unknown)]]
/// A member that needs an object that is not used up, as far as clang knows.
#define VERBATIM_UNCONSUMED_ONLY [[clang::callable_when("unconsumed", "unknown")]]
#else
#define VERBATIM_LIFETIMEBOUND
#define VERBATIM_CONSUMABLE
#define VERBATIM_CONSUMES
#define VERBATIM_RESTORES
#define VERBATIM_UNCONSUMED_ONLY
#endif

/// With VERBATIM_STRICT_LINEAR, for the destructor of a handle: it may only be destroyed when it
/// was used up, so that forgetting it is an error.
#if defined(__clang__) && defined(VERBATIM_STRICT_LINEAR)
#define VERBATIM_LINEAR [[clang::callable_when("consumed")]]
#else
#define VERBATIM_LINEAR
#endif

/// A failure path: out of line, so that the success path reads (and runs) straight down.
#define VERBATIM_COLD [[gnu::cold, gnu::noinline]]

/// The data path. clang 19 leaves some of these as calls unless told.
#define VERBATIM_HOT [[gnu::always_inline]] inline
