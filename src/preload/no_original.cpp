// SPDX-License-Identifier: MIT OR Apache-2.0
// For the stand-alone library, which *is* the libibverbs of its process.
#include <dlfcn.h>

#include <string_view>

#include "preload/original.hpp"

namespace verbatim::preload {

void* find_original(const char* name, const char*) noexcept {
  const bool is_verb = std::string_view{name}.find("ibv_") != std::string_view::npos;
  return is_verb ? nullptr : dlsym(RTLD_NEXT, name);
}

}  // namespace verbatim::preload
