// SPDX-License-Identifier: MIT OR Apache-2.0
#include "unit/channel/counters.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocated{0};
std::atomic<long> read_clock{0};

void* counted(std::size_t size, std::size_t alignment) {
  allocated.fetch_add(1, std::memory_order_relaxed);
  void* result = nullptr;
  if (alignment <= alignof(std::max_align_t))
    result = std::malloc(size);
  else if (posix_memalign(&result, alignment, size) != 0)
    result = nullptr;
  if (result == nullptr) throw std::bad_alloc{};
  return result;
}

}  // namespace

// The definitions of the program take precedence over those of the libraries.
void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocated.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  allocated.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" int clock_gettime(clockid_t clock, timespec* out) noexcept {
  if (clock == CLOCK_MONOTONIC) read_clock.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_clock_gettime, clock, out));
}

namespace verbatim::test {

long allocations() noexcept { return allocated.load(std::memory_order_relaxed); }
long clock_reads() noexcept { return read_clock.load(std::memory_order_relaxed); }

}  // namespace verbatim::test
