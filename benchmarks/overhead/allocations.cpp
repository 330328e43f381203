// SPDX-License-Identifier: MIT OR Apache-2.0
#include "allocations.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

// The definitions of the program take precedence over those of the C library, even for calls from
// shared libraries. glibc has its functions under these names as well.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {
std::atomic<long> count{0};
void counted() noexcept { count.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

extern "C" {
void* malloc(std::size_t size) noexcept {
  counted();
  return __libc_malloc(size);
}
void* calloc(std::size_t number, std::size_t size) noexcept {
  counted();
  return __libc_calloc(number, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  counted();
  return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  counted();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  counted();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  counted();
  *out = __libc_memalign(alignment, size);
  return *out != nullptr ? 0 : ENOMEM;
}
}

namespace verbatim::overhead {

long allocations() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace verbatim::overhead
