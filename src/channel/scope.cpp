// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for several operations of a scope, and what becomes of a buffer that dies before it.
#include "verbatim/channel/scope.hpp"

#include <pthread.h>

#include <algorithm>

#include "channel/patience.hpp"
#include "channel/slot_states.hpp"

#if VERBATIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace verbatim {

Result<std::size_t> Scope::wait_any(std::span<const Operation> operations, Timeout limit) noexcept {
  detail::Patience patience{channel_, limit};
  const auto is_over = [&](const Operation& operation) {
    const detail::Slot& slot = channel_.slot(operation.id_);
    return !operation.posted() || slot.id != operation.id_ || !is_in_flight(slot.state);
  };
  while (!operations.empty()) {
    if (const auto found = std::ranges::find_if(operations, is_over); found != operations.end())
      return static_cast<std::size_t>(found - operations.begin());
    if (channel_.look(patience)) continue;
    const Error late{.code = Errc::timed_out, .operation = "wait_any"};
    channel_.expire(late);
    return std::unexpected(late);
  }
  return std::unexpected(
      Error{.code = Errc::invalid_argument, .operation = "wait_any", .field = "operations"});
}

Result<void> Scope::wait_all(std::span<const Operation> operations, Timeout limit) noexcept {
  detail::Patience patience{channel_, limit};
  Result<void> outcome;
  for (const Operation operation : operations) {
    detail::Slot& slot = channel_.slot(operation.id_);
    if (channel_.await(slot, operation.id_, patience, detail::Memory::borrowed))
      --slot.scope->handles;
    else if (const Error error = failed(operation); outcome)
      outcome = std::unexpected(error);
  }
  return outcome;
}

void Scope::check_local(std::uint64_t address, std::source_location where) const {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#if VERBATIM_ASAN
  void* const fake = __asan_get_current_fake_stack();
  void* const memory = reinterpret_cast<void*>(address);
  void* const real = __asan_addr_is_in_fake_stack(fake, memory, nullptr, nullptr);
  const std::uintptr_t place = real != nullptr ? reinterpret_cast<std::uintptr_t>(real) : address;
  if (place >= frame_ || (real == nullptr && place < here)) return;
#endif
  // A fiber or coroutine runs on another stack: then nothing can be said.
  pthread_attr_t attributes;
  void* bottom = nullptr;
  std::size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  pthread_attr_getstack(&attributes, &bottom, &size);
  pthread_attr_destroy(&attributes);
  const auto low = reinterpret_cast<std::uintptr_t>(bottom);
  const auto inside = [&](std::uintptr_t x) { return x >= low && x - low < size; };
  if (inside(here) && inside(frame_))
    contract_violated(
        "Scope: the buffer is local to the scope's closure, and dies before the scope", address,
        frame_, where);
}

}  // namespace verbatim
