// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the cases share: how a case is declared, and a device that no checker can see.
///
/// A case is one mistake in the use of memory in flight, made on purpose. Its program ends with
/// "survived" when nobody noticed. misuse_test.cpp says which checker has to notice what.
#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <source_location>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "verbatim/base/dma_model.hpp"

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif

namespace verbatim::test {

struct MisuseCase {
  const char* name;
  void (*run)();
  MisuseCase* next;

  MisuseCase(const char* its_name, void (*function)())
      : name(its_name), run(function), next(std::exchange(first(), this)) {}
  static MisuseCase*& first() {
    static MisuseCase* head = nullptr;
    return head;
  }
};

/// VERBATIM_MISUSE(name) { ...the mistake... }
#define VERBATIM_MISUSE(name)                       \
  void name();                                      \
  const MisuseCase registered_##name{#name, &name}; \
  [[gnu::noinline]] void name()

/// A queue of the device. post() stands for a channel that posts work, and is in every stack.
class Nic {
 public:
  explicit Nic(const char* name = "nic receive") : queue_(name) {}

  [[gnu::noinline]] void receive(dma::Flight& flight, std::span<std::byte> into,
                                 std::source_location where = std::source_location::current()) {
    const dma::Range range{into.data(), into.size()};
    dma::posted(queue_, flight, dma::Direction::device_writes, {&range, 1}, where);
  }
  [[gnu::noinline]] void receive(dma::Flight& flight, std::initializer_list<dma::Range> into,
                                 std::source_location where = std::source_location::current()) {
    dma::posted(queue_, flight, dma::Direction::device_writes, into, where);
  }
  [[gnu::noinline]] void send(dma::Flight& flight, std::span<const std::byte> from,
                              std::source_location where = std::source_location::current()) {
    const dma::Range range{from.data(), from.size()};
    dma::posted(queue_, flight, dma::Direction::device_reads, {&range, 1}, where);
  }

 private:
  dma::Queue queue_;
};

/// DMA: an instruction that no compiler instruments; Valgrind has to be told to look away.
[[gnu::noinline]] inline void device_stores(std::byte* to, std::size_t size) {
#if defined(VALGRIND_DISABLE_ERROR_REPORTING)
  VALGRIND_DISABLE_ERROR_REPORTING;
#endif
#if defined(__x86_64__)
  asm volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(0x5a) : "memory");
#else
#error "write the bytes with an instruction that the compiler does not see"
#endif
#if defined(VALGRIND_ENABLE_ERROR_REPORTING)
  VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

/// A read that the compiler cannot leave out, and a decision that depends on it.
[[gnu::noinline]] inline void use(const std::byte* at) {
  if (*const_cast<const volatile std::byte*>(at) == std::byte{0xff}) asm volatile("");
}
[[gnu::noinline]] inline void scribble(std::byte* at) {
  auto* const byte = const_cast<volatile std::byte*>(at);
  *byte = std::byte{0x77};
}

/// Tells another thread without ordering anything: what a program does that "works on x86".
class Signal {
 public:
  void set() { flag_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_set() const { return flag_.load(std::memory_order_relaxed); }
  void wait() const {
    while (!is_set()) sched_yield();
  }

 private:
  std::atomic<bool> flag_{false};
};

using Bytes = std::vector<std::byte>;

}  // namespace verbatim::test
