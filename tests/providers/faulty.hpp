// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The `faulty` provider: the table of another provider, in which a chosen call fails.
///
///      const Provider& provider = faulty::install(*verbatim_null_provider());
///      faulty::fail_call("create_qp", 0, ENOMEM);   // its first call from now on
///      faulty::fail_any(7, EIO);                    // or: the eighth call that can fail
///
/// A failure follows the convention of the verb. A verb that creates or queries something is not
/// called then. A verb that destroys is still called, and *reports* a failure. Otherwise every
/// injected failure would be a leak, and no test could tell it from a leak of the library.
///
/// There is one plan per process, because a table of functions has no room for one. Threads: any.
/// `fail_any` does not count calls of `get_async_event`, because a thread of the library makes them
/// at any time. The data path (posts, polls) is not in the table, so it does not fail here.
#include <cstddef>
#include <string_view>

#include "verbatim/provider/provider.hpp"

namespace verbatim::faulty {

/// A table over `inner`, with no failure planned. It lives as long as the process.
const Provider& install(const Provider& inner);

/// Plans one failure, in place of any other. `number` counts from 0, and from now on.
void fail_call(std::string_view verb, std::size_t number, int error);
void fail_any(std::size_t number, int error);

/// Removes the plan and sets all counts to 0.
void reset();

/// Calls of a verb since install() or reset(). An unknown name ends the process.
[[nodiscard]] std::size_t calls(std::string_view verb);
/// Calls that fail_any() counts.
[[nodiscard]] std::size_t calls();
/// The verb whose call failed, or "" if the plan has not reached that call yet.
[[nodiscard]] std::string_view failed_verb();

}  // namespace verbatim::faulty
