// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs that load libibverbs at run time and look up its functions get ours, the same ones that
// a linked program gets. The C library answers all other lookups.
//
// dlsym() looks at its return address: RTLD_NEXT means "after the object of the caller". So our
// functions must not call the original but jump to it, as if they were not there. An optimizing
// compiler turns a call at the end of a function with the same parameters into such a jump. This
// file is always compiled with optimization (CMakeLists.txt), and the lane preload tests it.
#include "preload/loader_hooks.hpp"

#include <dlfcn.h>

#include <atomic>
#include <string_view>

#include "preload/original.hpp"
#include "preload/symbols.hpp"

namespace verbatim::preload {
namespace {

constinit std::atomic<Lookup> found_dlsym{nullptr};
constinit std::atomic<VersionLookup> found_dlvsym{nullptr};

template <class Function>
[[gnu::noinline]] Function find(std::atomic<Function>& found, const char* name) noexcept {
  const auto function = reinterpret_cast<Function>(find_next_definition(name));
  found.store(function, std::memory_order_release);
  return function;
}

/// Whether a lookup may concern us; almost none does. This makes no calls, because a sanitizer's
/// own lookups come here before the functions that it intercepts work.
bool may_concern_us(const void* library, const char* name) noexcept {
  if (name == nullptr || library == RTLD_NEXT || library == RTLD_DEFAULT) return false;
  if (*name == '_') ++name;
  for (const char each : {'i', 'b', 'v', '_'})
    if (*name++ != each) return false;
  return true;
}

bool is_of_libibverbs(const void* function) noexcept {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path{info.dli_fname};
  return path.substr(path.rfind('/') + 1).starts_with("libibverbs.so");
}

/// Returns our function for one of libibverbs. Other libraries have functions with such names, too:
/// some intercept libibverbs as we do, and look up the original behind them.
void* replace(void* found, const char* name, const char* version) noexcept {
  if (found == nullptr || !is_of_libibverbs(found)) return found;
  void* const own = find_own_definition(name, version);
  return own != nullptr ? own : found;
}

/// Runs before main(), while no other thread loads objects.
[[gnu::constructor]] void find_originals() noexcept {
  (void)original_dlsym();
  (void)original_dlvsym();
}

}  // namespace

Lookup original_dlsym() noexcept {
  const Lookup function = found_dlsym.load(std::memory_order_acquire);
  return function != nullptr ? function : find(found_dlsym, "dlsym");
}

VersionLookup original_dlvsym() noexcept {
  const VersionLookup function = found_dlvsym.load(std::memory_order_acquire);
  return function != nullptr ? function : find(found_dlvsym, "dlvsym");
}

}  // namespace verbatim::preload

using namespace verbatim::preload;

VERBATIM_EXPORT void* dlsym(void* library, const char* name) noexcept {
  const Lookup original = original_dlsym();
  if (!may_concern_us(library, name)) return original(library, name);  // A jump: see above.
  return replace(original(library, name), name, nullptr);
}

VERBATIM_EXPORT void* dlvsym(void* library, const char* name, const char* version) noexcept {
  const VersionLookup original = original_dlvsym();
  if (!may_concern_us(library, name)) return original(library, name, version);  // Also a jump.
  return replace(original(library, name, version), name, version);
}
