// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Definitions in the symbol tables of loaded objects, found by hand.
///
/// Who stands in front of dlsym() cannot ask it where the real one is. And programs call it before
/// anything else works: under a sanitizer, before the sanitizer does. So this takes no lock,
/// allocates nothing and calls nothing that somebody could stand in front of, not even strcmp().

namespace verbatim::preload {

/// In the first object behind ours that has it, in the order in which programs are bound; of its
/// versions, the default one. To be called before there are threads that load objects.
[[nodiscard]] void* find_next_definition(const char* name) noexcept;

/// In our own object; nullptr for one that we do not have. No version: the default one. What is in
/// no version suits every one, as it does for the dynamic linker.
[[nodiscard]] void* find_own_definition(const char* name, const char* version) noexcept;

}  // namespace verbatim::preload
