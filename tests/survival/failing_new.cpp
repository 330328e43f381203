// SPDX-License-Identifier: MIT OR Apache-2.0
#include "survival/failing_new.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace verbatim::test {
namespace {

std::atomic<bool> is_counting{false};
std::atomic<unsigned> failing_count{0};
std::atomic<unsigned> failing{0};
std::atomic<bool> all_that_follow{false};

bool fails_now() noexcept {
  if (!is_counting.load(std::memory_order_relaxed)) [[likely]]
    return false;
  const unsigned number = failing_count.fetch_add(1) + 1;
  const unsigned which = failing.load();
  return which != 0 && (number == which || (number > which && all_that_follow.load()));
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (!fails_now())
    if (void* const memory =
            alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment))
      return memory;
  throw std::bad_alloc{};
}

}  // namespace

void fail_allocation(unsigned which, Failing how) noexcept {
  failing_count = 0;
  failing = which;
  all_that_follow = how == Failing::from_then;
  is_counting = true;
}

unsigned stop_failing() noexcept {
  is_counting = false;
  return failing_count.load();
}

}  // namespace verbatim::test

// The other forms call these.
void* operator new(std::size_t bytes) { return verbatim::test::allocate(bytes + (bytes == 0), 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return verbatim::test::allocate(bytes + (bytes == 0), static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
