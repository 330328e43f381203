// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a measurement ends early.
#include <stdexcept>
#include <string>
#include <utility>

#include "verbatim/base/error.hpp"
#include "verbatim/base/explain.hpp"

namespace verbatim::cli {

/// It cannot go on: one line for the user says why.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The user has asked for the end (Ctrl-C). What was measured so far counts.
struct Interrupted : std::exception {};

/// The value, or the error as a Failure. By reference: copying a Result costs more than a post.
template <class T>
T need(Result<T>&& result) {
  if (!result) [[unlikely]]
    throw Failure{explain(result.error())};
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace verbatim::cli
