// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/fault_guard.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "soft/shared/layout.hpp"

namespace verbatim::engine {
namespace {

/// One for each process, and spare ones for processes that are ending.
std::array<std::atomic<std::uintptr_t>, std::size_t{2} * kProcessSlots> segments{};
struct sigaction previous_action{};

/// Maps empty memory over the segment that holds this address. Calls only what a signal handler may
/// call.
bool replace_segment(std::uintptr_t fault) noexcept {
  for (const auto& each : segments) {
    const std::uintptr_t start = each.load(std::memory_order_acquire);
    if (start == 0 || fault - start >= kSegmentBytes) continue;
    return mmap(reinterpret_cast<void*>(start), kSegmentBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_fault(int number, siginfo_t* info, void* context) {
  if (replace_segment(reinterpret_cast<std::uintptr_t>(info->si_addr))) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0)
    return previous_action.sa_sigaction(number, info, context);
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    return previous_action.sa_handler(number);
  // No handler is left. The same access faults again, and ends the program as it would have without
  // us.
  sigaction(SIGBUS, &previous_action, nullptr);
}

}  // namespace

void guard_faults() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ours{};
    ours.sa_sigaction = &on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &previous_action);
  });
}

void guard_segment(void* address) noexcept {
  for (auto& each : segments) {
    std::uintptr_t nobody = 0;
    if (each.compare_exchange_strong(nobody, reinterpret_cast<std::uintptr_t>(address))) return;
  }
}

void forget_segment(void* address) noexcept {
  for (auto& each : segments) {
    auto known = reinterpret_cast<std::uintptr_t>(address);
    if (each.compare_exchange_strong(known, 0)) return;
  }
}

}  // namespace verbatim::engine
