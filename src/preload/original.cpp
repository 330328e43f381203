// SPDX-License-Identifier: MIT OR Apache-2.0
#include "preload/original.hpp"

#include <dlfcn.h>

#include <string_view>

#include "preload/loader_hooks.hpp"

namespace verbatim::preload {
namespace {

void* find_in(void* library, const char* name, const char* version) noexcept {
  return version != nullptr ? original_dlvsym()(library, name, version)
                            : original_dlsym()(library, name);
}

}  // namespace

void* find_original(const char* name, const char* version) noexcept {
  if (void* const next = find_in(RTLD_NEXT, name, version)) return next;
  if (std::string_view{name}.find("ibv_") == std::string_view::npos) return nullptr;
  // If a program loads libibverbs with its plug-ins, RTLD_NEXT does not find it. The library is
  // never closed, because the threads and handlers of its devices would outlive it.
  static constinit std::atomic<void*> library{nullptr};
  if (library.load() == nullptr) library.store(dlopen("libibverbs.so.1", RTLD_LAZY));
  return library.load() != nullptr ? find_in(library.load(), name, version) : nullptr;
}

}  // namespace verbatim::preload
