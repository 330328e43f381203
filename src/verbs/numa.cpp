// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/numa.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <string>

#include "base/once.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/context.hpp"

namespace verbatim {
namespace {

struct Bitmask;  // libnuma's `struct bitmask`; only passed on.

/// The functions of libnuma that we use. If one is missing, `available` is false.
struct NumaLibrary {
  int (*numa_available)() = nullptr;
  int (*run_on_node)(int) = nullptr;
  int (*max_node)() = nullptr;
  Bitmask* (*parse_nodes)(const char*) = nullptr;
  void (*free_nodes)(Bitmask*) = nullptr;
  void (*set_membind)(Bitmask*) = nullptr;
  void (*set_preferred)(int) = nullptr;
  bool available = false;
};

template <class Function>
bool load(void* handle, const char* name, Function*& slot) {
  slot = reinterpret_cast<Function*>(dlsym(handle, name));
  return slot != nullptr;
}

NumaLibrary load_library() {
  NumaLibrary numa;
  void* const handle = dlopen("libnuma.so.1", RTLD_NOW);  // Never unloaded.
  if (handle == nullptr) return numa;
  // numa_available() must be the first call. If it fails, all other functions are undefined.
  numa.available = load(handle, "numa_available", numa.numa_available) &&
                   load(handle, "numa_run_on_node", numa.run_on_node) &&
                   load(handle, "numa_max_node", numa.max_node) &&
                   load(handle, "numa_parse_nodestring_all", numa.parse_nodes) &&
                   load(handle, "numa_bitmask_free", numa.free_nodes) &&
                   load(handle, "numa_set_membind", numa.set_membind) &&
                   load(handle, "numa_set_preferred", numa.set_preferred) &&
                   numa.numa_available() >= 0;
  return numa;
}

Result<const NumaLibrary*> library() {
  static constinit detail::Once<NumaLibrary> loaded;
  const NumaLibrary& numa = loaded(&load_library);
  if (!numa.available)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = "numa_available"}.with_text("libnuma.so.1"));
  return &numa;
}

/// Prefers memory of this node; -1 restores the default policy. libnuma returns nothing here: it
/// prints the kernel's answer and leaves errno.
Result<void> set_preferred(const NumaLibrary& numa, int node) {
  errno = 0;
  numa.set_preferred(node);
  if (const int failure = errno) return std::unexpected(os_failure("numa_set_preferred", failure));
  return {};
}

}  // namespace

Result<void> bind_thread_to_node(int node, NumaPolicy policy) {
  const NumaLibrary& numa = *VERBATIM_TRY(library());
  if (node < 0 || node > numa.max_node())
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = "numa_run_on_node",
                                 .field = "node",
                                 .value = static_cast<std::uint64_t>(node),
                                 .limit = static_cast<std::uint64_t>(numa.max_node())});
  if (numa.run_on_node(node) != 0) {
    Error error = os_failure("numa_run_on_node", errno);
    error.field = "node";
    error.value = static_cast<std::uint64_t>(node);
    return std::unexpected(error);
  }
  if (policy == NumaPolicy::preferred) return set_preferred(numa, node);
  // MPOL_BIND: pages come from this node or not at all. libnuma's "bind policy" switch would not
  // work here, because it concerns only numa_alloc.
  Bitmask* const nodes = numa.parse_nodes(std::to_string(node).c_str());
  if (nodes == nullptr)
    return std::unexpected(Error{.code = Errc::not_found,
                                 .operation = "numa_parse_nodestring",
                                 .field = "node",
                                 .value = static_cast<std::uint64_t>(node)});
  errno = 0;
  numa.set_membind(nodes);
  const int failure = errno;
  numa.free_nodes(nodes);
  if (failure != 0) return std::unexpected(os_failure("numa_set_membind", failure));
  return {};
}

Result<void> bind_thread_to_device(const Context& context, NumaPolicy policy) {
  return bind_thread_to_node(VERBATIM_TRY(context.numa_node()), policy);
}

Result<void> unbind_thread() {
  const NumaLibrary& numa = *VERBATIM_TRY(library());
  if (numa.run_on_node(-1) != 0) return std::unexpected(os_failure("numa_run_on_node", errno));
  return set_preferred(numa, -1);
}

}  // namespace verbatim
