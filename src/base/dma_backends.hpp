// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One set of hooks per checker; those of a checker that is not compiled in are empty.
#include <sched.h>

#include <atomic>
#include <cstddef>

#include "base/dma_operation.hpp"
#include "verbatim/base/dma_model.hpp"

#if VERBATIM_TSAN
// Exported by the runtimes of both compilers; no header declares them.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names they have
extern "C" {
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#endif

namespace verbatim::dma::detail {

/// Hides what this thread does from ThreadSanitizer while the object lives. Without it, the model's
/// lock would order threads that the program itself does not order, and hide their races.
class Unseen {
 public:
#if VERBATIM_TSAN
  Unseen() noexcept {
    __tsan_ignore_thread_begin();
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    __tsan_ignore_thread_end();
  }
#else
  // Not defaulted: an object with a user-provided destructor does not count as an unused variable.
  Unseen() noexcept {}
  ~Unseen() {}
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

/// Usually held for tens of nanoseconds.
class Lock {
 public:
  void lock() noexcept {
    const Unseen unseen;
    while (held_.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  void unlock() noexcept {
    const Unseen unseen;
    held_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> held_{false};
};

/// ThreadSanitizer: the queue is a thread, which touches the memory after the post and ends at the
/// completion.
struct QueueState {
  void* fiber = nullptr;
  Lock lock;  // One thread at a time may be on the fiber.
};
#if VERBATIM_TSAN
[[nodiscard]] QueueState* tsan_open(const char* name);
void tsan_close(QueueState* queue) noexcept;
void tsan_posted(QueueState& queue, Operation& operation) noexcept;
void tsan_completed(Operation& operation) noexcept;
#else
[[nodiscard]] inline QueueState* tsan_open(const char*) { return nullptr; }
inline void tsan_close(QueueState*) noexcept {}
inline void tsan_completed(Operation&) noexcept {}
#endif

/// AddressSanitizer: memory that the device writes may not be touched. It has no state for memory
/// that may be read but not written, so memory that the device reads is not poisoned. Neither may
/// be freed.
#if VERBATIM_ASAN
void asan_posted(const Operation& operation) noexcept;
void asan_completed(const Operation& operation) noexcept;
#else
inline void asan_posted(const Operation&) noexcept {}
inline void asan_completed(const Operation&) noexcept {}
#endif

/// MemorySanitizer, or Valgrind in checked builds: what is sent must be initialised; what was not
/// received is uninitialised.
#if VERBATIM_MSAN
#define VERBATIM_MEMCHECK 1
#elif VERBATIM_ASAN || VERBATIM_TSAN || !VERBATIM_IS_CHECKED
#define VERBATIM_MEMCHECK 0
#elif __has_include(<valgrind/memcheck.h>)
#define VERBATIM_MEMCHECK 1
#else
#define VERBATIM_MEMCHECK 0
#endif
#if VERBATIM_MEMCHECK
/// False if the device is about to read something that was never written.
[[nodiscard]] bool memcheck_posted(const Operation& operation) noexcept;
void memcheck_completed(const Operation& operation, std::size_t bytes) noexcept;
#else
[[nodiscard]] inline bool memcheck_posted(const Operation&) noexcept { return true; }
inline void memcheck_completed(const Operation&, std::size_t) noexcept {}
#endif

}  // namespace verbatim::dma::detail
