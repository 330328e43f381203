// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The `faulty` provider: another provider's table, of which a chosen call fails.
///
///     const Provider& provider = faulty::install(*verbatim_null_provider());
///     faulty::fail_call("create_qp", 0, ENOMEM);   // its first call from now on
///     faulty::fail_any(7, EIO);                    // or: the eighth call that can fail
///
/// A failure looks as the verb's own convention wants it. A verb that makes or asks something is
/// not called then. A verb that destroys is called all the same and *reports* a failure: otherwise
/// every injected one would be a leak, and no test could tell it from the library's.
///
/// One plan per process, because a table of functions has nowhere to keep one. Threads: any. Calls
/// of `get_async_event` are not among those that `fail_any` counts: a thread of the library makes
/// them when it likes. The data path (posts, polls) is not in the table, so it does not fail here.
#include <cstddef>
#include <string_view>

#include "verbatim/provider/provider.hpp"

namespace verbatim::faulty {

/// A table over `inner`, with nothing planned. It lives as long as the process.
const Provider& install(const Provider& inner);

/// Plans one failure, instead of any other. `number` counts from 0, and from now on.
void fail_call(std::string_view verb, std::size_t number, int error);
void fail_any(std::size_t number, int error);

/// Plans nothing and sets all counts to 0.
void reset();

/// Calls of a verb since install() or reset(); a name that is none ends the process.
[[nodiscard]] std::size_t calls(std::string_view verb);
/// Calls that fail_any() counts.
[[nodiscard]] std::size_t calls();
/// The verb whose call was made to fail, or "" if the plan has not come to that yet.
[[nodiscard]] std::string_view failed_verb();

}  // namespace verbatim::faulty
