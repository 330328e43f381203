// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Finds memory that is gone when the closure of a scope returns, before the scope is over.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/sanitizers.hpp"
#include "verbatim/verbs/detail/encode.hpp"

namespace verbatim::detail {

/// Only a name for a warning of g++ to mention: see show_compiler(). Never written.
inline const void* must_outlive_the_scope = nullptr;

template <class Element, std::size_t N>
VERBATIM_HOT const void* first_memory_in(const ElementList<Element, N>& list) noexcept {
  if constexpr (N == 0 || N == std::dynamic_extent)
    return nullptr;
  else
    return reinterpret_cast<const void*>(reinterpret_cast<const ibv_sge*>(&list)->addr);
}
/// The address of the first element, for compiler warnings. Taken straight from the work, because
/// g++ -O1 inlines ElementList::data() only after it has looked. Null for a borrowed list.
template <class Work>
VERBATIM_HOT const void* first_memory(const Work& work) noexcept {
  if constexpr (requires { work.into.data(); })
    return first_memory_in(work.into);
  else if constexpr (requires { work.from.data(); })
    return first_memory_in(work.from);
  else
    return reinterpret_cast<const void*>(list_of(work.into)->addr);
}

/// The stack between here and the frame that called the closure. A check costs 3 instructions per
/// post; the extra frame costs 35 per scope.
class ClosureFrame {
 public:
  /// Calls the closure from a separate frame: the closure's locals are below it, all others above.
  template <class F, class Scope>
  [[gnu::noinline]] decltype(auto) run(F& body, Scope& scope) {
    end_ = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#if VERBATIM_ASAN
    // AddressSanitizer places a frame of its own stack a few calls below the usual position.
    end_ = reinterpret_cast<std::uintptr_t>(__builtin_alloca(1024));
#endif
    return std::invoke(body, scope);
  }

  /// The closure is a coroutine: its locals are in a frame that outlives the scope.
  void run_elsewhere() noexcept { end_ = 0; }

  template <class Work>
  VERBATIM_HOT void check(const Work& work, std::source_location where) const {
    for (const ibv_sge& element : elements_of(work)) {
      // Heap and static memory are usually below the stack: one compare excludes them. Locals may
      // be on AddressSanitizer's own stack, which only it can tell.
      if (VERBATIM_ASAN || (is_above_stack(element.addr) && element.addr < end_)) [[unlikely]]
        check_local(element.addr, where);
    }
  }
  /// Lets g++ -Wall (-Wdangling-pointer), from -O1 on, see that the address of a closure's local is
  /// kept, if the post is the last call in the closure: g++ does not look behind a later call. It
  /// costs nothing: the frame's address is not a constant, but g++ decides that only after it has
  /// warned. clang does not find this; check() does, with any compiler.
  VERBATIM_HOT void show_compiler([[maybe_unused]] const void* memory) const noexcept {
#if defined(__GNUC__) && !defined(__clang__)
    if (__builtin_constant_p(end_)) must_outlive_the_scope = memory;
#endif
  }

 private:
  VERBATIM_HOT static bool is_above_stack(std::uint64_t address) noexcept {
#if defined(__x86_64__)
    bool above;
    asm("cmp %%rsp, %1" : "=@ccae"(above) : "r"(address));  // Without a copy of it: -1 / -1.
    return above;
#elif defined(__aarch64__)
    std::uint64_t here;
    asm("mov %0, sp" : "=r"(here));
    return address >= here;
#else
    return false;  // Not checked.
#endif
  }
  VERBATIM_COLD void check_local(std::uint64_t address, std::source_location where) const;

  std::uintptr_t end_;  // Valid from run() on, before anyone sees the scope.
};

}  // namespace verbatim::detail
