// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The C library's dlsym() and dlvsym(), behind our own.

namespace verbatim::preload {

using Lookup = void* (*)(void* library, const char* name) noexcept;
using VersionLookup = void* (*)(void* library, const char* name, const char* version) noexcept;

/// Found at the first call, which may come before any constructor. RTLD_NEXT, passed to what these
/// return, means after the object of the caller: so call it from the right object.
[[nodiscard]] Lookup original_dlsym() noexcept;
[[nodiscard]] VersionLookup original_dlvsym() noexcept;

}  // namespace verbatim::preload
