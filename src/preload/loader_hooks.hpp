// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The C library's dlsym() and dlvsym(), behind our own.

namespace verbatim::preload {

using Lookup = void* (*)(void* library, const char* name) noexcept;
using VersionLookup = void* (*)(void* library, const char* name, const char* version) noexcept;

/// Found at the first call, which may be before any constructor. RTLD_NEXT, given to what these
/// return, means behind the object of the caller: call it where the caller is to be.
[[nodiscard]] Lookup original_dlsym() noexcept;
[[nodiscard]] VersionLookup original_dlvsym() noexcept;

}  // namespace verbatim::preload
