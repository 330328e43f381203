// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Definitions in the symbol tables of loaded objects, found by hand.
///
/// Code that replaces dlsym() cannot ask it where the real one is. And programs call it before
/// anything else works: under a sanitizer, before the sanitizer does. So this takes no lock,
/// allocates nothing and calls nothing that could be interposed, not even strcmp().

namespace verbatim::preload {

/// In the first object after ours that has it, in the order of symbol resolution; of its versions,
/// the default one. Call it before there are threads that load objects.
[[nodiscard]] void* find_next_definition(const char* name) noexcept;

/// In our own object; nullptr if we do not have it. No version: the default one. An unversioned
/// definition matches every version, as for the dynamic linker.
[[nodiscard]] void* find_own_definition(const char* name, const char* version) noexcept;

}  // namespace verbatim::preload
