// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dma_backends.hpp"

#if VERBATIM_ASAN

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "base/dma_operation.hpp"
#include "verbatim/base/check.hpp"

// From <sanitizer/allocator_interface.h>, which g++ 12 does not have.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names they have
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                              void (*on_free)(const volatile void*));
std::size_t __sanitizer_get_allocated_size(const volatile void* block);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace verbatim::dma::detail {
namespace {

/// Prints where the program posted, and the calls that led there.
void print_post(const Operation& operation) noexcept {
  std::fprintf(stderr, "posted at %s:%u:\n", operation.where.file_name(), operation.where.line());
  int number = 0;
  for (void* const call : operation.stack.calls()) {
    std::array<char, 8192> frames{};
    // This is a return address, so the call is before it. The result includes the functions that
    // were inlined there, innermost first, each followed by a zero byte. Most of a post is inlined
    // into the program's own function.
    __sanitizer_symbolize_pc(static_cast<char*>(call) - 1, "%f %L", frames.data(),
                             frames.size() - 1);
    for (const char* each = frames.data(); *each != '\0'; each += std::strlen(each) + 1)
      std::fprintf(stderr, "    #%d %s\n", number++, each);
  }
}

/// Adds what AddressSanitizer cannot know to its report.
void explain_report(const char*) noexcept {
  const auto* const address = static_cast<const std::byte*>(__asan_get_report_address());
  const Operation* const owner = find_in_flight(address, 1);
  if (owner == nullptr) return;
  for (const Range& range : owner->covered())
    if (range.data <= address && address < range.data + range.size)
      std::fprintf(stderr, "verbatim: %p is byte %td of %zu bytes that the device %s, ",
                   static_cast<const void*>(address), address - range.data, range.size,
                   owner->direction == Direction::device_reads ? "reads" : "writes");
  print_post(*owner);
}

/// Checks memory that is being freed. A later completion would make it accessible again, and hide
/// every use of it.
void check_freed(const volatile void* block) noexcept {
  if (block == nullptr || !anything_in_flight()) return;
  const void* const start = const_cast<const void*>(block);
  const std::size_t size = __sanitizer_get_allocated_size(block);
  const Operation* const owner = find_in_flight(start, size);
  if (owner == nullptr) return;
  std::fprintf(stderr, "verbatim: memory is freed while the device owns it; freed at:\n");
  __sanitizer_print_stack_trace();
  std::fprintf(stderr, "verbatim: and ");
  print_post(*owner);
  contract_violated("memory was freed while the device owns it; the block has this many bytes",
                    size, 0, owner->where);
}

void ignore_allocation(const volatile void*, std::size_t) noexcept {}

bool install_hooks() noexcept {
  __asan_set_error_report_callback(explain_report);
  return __sanitizer_install_malloc_and_free_hooks(ignore_allocation, check_freed) != 0;
}

}  // namespace

void asan_posted(const Operation& operation) noexcept {
  [[maybe_unused]] static const bool installed = install_hooks();
  if (operation.direction == Direction::device_reads) return;
  for (const Range& range : operation.covered())
    __asan_poison_memory_region(range.data, range.size);
}

void asan_completed(const Operation& operation) noexcept {
  if (operation.direction == Direction::device_reads) return;
  for (const Range& range : operation.covered())
    __asan_unpoison_memory_region(range.data, range.size);
}

}  // namespace verbatim::dma::detail

#endif
