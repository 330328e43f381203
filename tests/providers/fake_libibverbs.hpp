// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a test reaches into the libibverbs that the library loaded (fake_libibverbs.cpp).
#include <dlfcn.h>

#include <stdexcept>

#include "verbatim/provider/provider.hpp"

namespace verbatim::test {

/// `name` in the library file; `VERBATIM_FAKE_LIBIBVERBS` is that file, from CMake.
inline void* fake_symbol(const char* name) {
  void* const handle = dlopen(VERBATIM_FAKE_LIBIBVERBS, RTLD_NOW);
  void* const found = handle != nullptr ? dlsym(handle, name) : nullptr;
  if (found == nullptr) throw std::runtime_error(dlerror());
  return found;
}

/// The table that its entry points call.
inline Provider& fake_table() {
  return *reinterpret_cast<Provider* (*)()>(fake_symbol("verbatim_fake_table"))();
}

}  // namespace verbatim::test
