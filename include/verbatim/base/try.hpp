// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file VERBATIM_TRY: the value of a Result, or return its error to the caller.
///
/// libstdc++ 12 has no `and_then`; early return reads better anyway. Use one per line, as a whole
/// initialiser or statement: a return from the middle of a braced list would leak the members that
/// were already made.
#include "verbatim/base/language.hpp"

#include <expected>
#include <utility>

#define VERBATIM_TRY(expression)                                \
  __extension__({                                               \
    auto&& verbatim_try_ = (expression);                        \
    if (!verbatim_try_) [[unlikely]]                            \
      return std::unexpected(std::move(verbatim_try_).error()); \
    *std::move(verbatim_try_);                                  \
  })
