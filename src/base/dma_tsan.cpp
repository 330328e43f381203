// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dma_backends.hpp"

#if VERBATIM_TSAN

#include <sanitizer/tsan_interface.h>

// The functions that the instrumentation calls; the runtimes of both compilers export them. They
// are declared under our own names, because to g++ theirs are built-in functions. g++ changes the
// types of those from version to version, and a declaration that differs is an error.
extern "C" {
void verbatim_tsan_read1(void* data) __asm__("__tsan_read1");
void verbatim_tsan_read2(void* data) __asm__("__tsan_read2");
void verbatim_tsan_read4(void* data) __asm__("__tsan_read4");
void verbatim_tsan_read_range(void* data, unsigned long size) __asm__("__tsan_read_range");
void verbatim_tsan_write1(void* data) __asm__("__tsan_write1");
void verbatim_tsan_write2(void* data) __asm__("__tsan_write2");
void verbatim_tsan_write4(void* data) __asm__("__tsan_write4");
void verbatim_tsan_write_range(void* data, unsigned long size) __asm__("__tsan_write_range");
void verbatim_tsan_func_entry(void* call) __asm__("__tsan_func_entry");
void verbatim_tsan_func_exit() __asm__("__tsan_func_exit");
}

// Nothing that this thread does on the fiber may count as an access of the device.
#if defined(__clang__)
#define VERBATIM_BARE __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#define VERBATIM_BARE __attribute__((no_sanitize("thread"), noinline))
#endif

namespace verbatim::dma::detail {
namespace {

constexpr unsigned kNoOrder = __tsan_switch_to_fiber_no_sync;

/// An access of the device. The fiber borrows the stack of the thread that posted it.
struct Access {
  void* const* calls;
  std::size_t depth;
  const Range* ranges;
  std::size_t count;
  bool writes;
};

VERBATIM_BARE void touch(std::byte* data, std::size_t size, bool writes) noexcept {
  switch (size) {
    case 1: return writes ? verbatim_tsan_write1(data) : verbatim_tsan_read1(data);
    case 2: return writes ? verbatim_tsan_write2(data) : verbatim_tsan_read2(data);
    case 4: return writes ? verbatim_tsan_write4(data) : verbatim_tsan_read4(data);
    default:
      return writes ? verbatim_tsan_write_range(data, size) : verbatim_tsan_read_range(data, size);
  }
}

/// Uses as few accesses as possible. The runtime of g++ 12 would touch the ends byte by byte, and
/// it remembers only the last four accesses to a word.
VERBATIM_BARE void touch_all(const Range& range, bool writes) noexcept {
  auto* at = const_cast<std::byte*>(range.data);
  for (std::size_t left = range.size; left != 0;) {
    const auto aligned = std::size_t{1}
                         << __builtin_ctzll(reinterpret_cast<std::uintptr_t>(at) | 8);
    std::size_t part = left & ~std::size_t{7};
    if (aligned < 8 || part == 0) {
      part = aligned;
      while (part > left) part /= 2;
    }
    touch(at, part, writes);
    at += part;
    left -= part;
  }
}

VERBATIM_BARE void perform(const Access& access) noexcept {
  for (std::size_t i = access.depth; i > 0; --i) verbatim_tsan_func_entry(access.calls[i - 1]);
  for (std::size_t i = 0; i < access.count; ++i) touch_all(access.ranges[i], access.writes);
  for (std::size_t i = 0; i < access.depth; ++i) verbatim_tsan_func_exit();
}

VERBATIM_BARE void on_fiber(void* fiber, Operation& operation, const Access& access) noexcept {
  void* const self = __tsan_get_current_fiber();
  __tsan_release(&operation.to_device);
  __tsan_switch_to_fiber(fiber, kNoOrder);
  __tsan_acquire(&operation.to_device);
  perform(access);
  __tsan_release(&operation.from_device);
  __tsan_switch_to_fiber(self, kNoOrder);
}

}  // namespace

QueueState* tsan_open(const char* name) {
  auto* const queue = new QueueState;
  queue->fiber = __tsan_create_fiber(0);
  __tsan_set_fiber_name(queue->fiber, name);
  return queue;
}

void tsan_close(QueueState* queue) noexcept {
  __tsan_destroy_fiber(queue->fiber);
  delete queue;
}

void tsan_posted(QueueState& queue, Operation& operation) noexcept {
  Access access{};
  {
    const Unseen unseen;
    const auto calls = operation.stack.calls();
    access = {calls.data(), calls.size(), operation.ranges.data(), operation.count,
              operation.direction == Direction::device_writes};
    queue.lock.lock();
  }
  on_fiber(queue.fiber, operation, access);
  queue.lock.unlock();
}

void tsan_completed(Operation& operation) noexcept { __tsan_acquire(&operation.from_device); }

}  // namespace verbatim::dma::detail

#endif
