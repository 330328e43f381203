// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Says in one line what the compiler lacks, where it cannot compile the library.
///
/// Every public header reaches this one before its own first declaration. Compilers go on after
/// #error, and would show hundreds of errors below ours; a file that is not there stops them.

#ifdef __has_include
#if __has_include(<version>)
#include <version>
#endif
#endif

#if __cplusplus < 202100L
#include "Verbatim needs C++23: compile with -std=c++23 (g++ 12, clang 19 or later)"
#elif !defined(__cpp_lib_expected)
#include "Verbatim needs <expected>: use g++ 12 or clang 19, or later, with libstdc++ 12 or later"
#endif
