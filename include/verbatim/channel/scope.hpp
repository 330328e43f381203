// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Operations on borrowed memory: all of them are over when the scope ends.
///
///     auto outcome = channel.scope([&](Scope& scope) -> Result<void> {
///       auto receiving = scope.post(Receive{region.scatter(reply)});
///       scope.post_detached(Send{region.gather(request)});
///       VERBATIM_TRY(scope.wait(receiving));
///       return {};
///     });
///
/// The scope, not the handle, guarantees the end: whatever the closure does, returns or throws,
/// scope() comes back only when the device is done with everything that was posted.
///
/// | closure            | what was not waited for | scope() returns                             |
/// |--------------------|-------------------------|---------------------------------------------|
/// | a value or success | nothing, or succeeded   | the value                                   |
/// | a value or success | something failed        | ScopeError with each failed operation       |
/// | an error           | anything                | ScopeError with it and each failed operation |
/// | throws             | anything                | throws on, after everything is over         |
///
/// manual_scope(): the same, but an Operation that is left unwaited is a programming error.
///
/// What the memory must outlive is the scope. A buffer that is local to the closure does not: that
/// is found when it is posted, if it lies on the stack; g++ -O1 -Wall mostly warns of it.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/base/check.hpp"
#include "verbatim/channel/operation_core.hpp"

namespace verbatim {

namespace detail {
/// Only a name, for a warning of g++ to mention: see Scope::show_compiler(). Never written.
inline const void* must_outlive_the_scope = nullptr;
}  // namespace detail

/// A posted operation of a scope. Copyable and small; a stale one is told so.
class [[nodiscard("wait() for it, or use post_detached()")]] Operation {
 public:
  [[nodiscard]] bool posted() const noexcept { return (id_ & detail::kRefused) == 0; }

 private:
  friend class Scope;
  friend struct UnsafeChannel;
  explicit Operation(std::uint64_t id) noexcept : id_(id) {}
  std::uint64_t id_;
};

/// Why a scope failed. At least one of the two is there.
template <class E>
struct ScopeError {
  std::optional<E> closure{};       ///< What the closure returned.
  std::vector<Error> operations{};  ///< What nobody waited for, and failed.
};
template <class T, class E = Error>
using ScopeResult = std::expected<T, ScopeError<E>>;

class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Hands the work to the device. A refusal (`would_block`: the queue is full) comes out of
  /// wait().
  template <class Work>
  VERBATIM_HOT Operation post(const Work& work,
                              std::source_location where = std::source_location::current()) {
    const void* const memory = UnsafeAccess::first_memory(work);
    check_frame(work, where);
    const Operation posted{
        channel_.post(work, detail::SlotState::flying, where, &state_, &state_.handles).id};
    show_compiler(memory);
    return posted;
  }
  /// All of it with one doorbell and one signal. One handle, whose result is the first failure; if
  /// the queue has not room for all of it, nothing is posted (`would_block`; `limit_exceeded` if it
  /// never will have).
  template <std::ranges::contiguous_range Works>
    requires SendWork<std::ranges::range_value_t<Works>>
  VERBATIM_HOT Operation post(const Works& all,
                              std::source_location where = std::source_location::current()) {
    using Work = std::ranges::range_value_t<Works>;
    const std::span<const Work> works{all};
    const void* const memory = works.empty() ? nullptr : UnsafeAccess::first_memory(*works.data());
    const detail::Ticket ticket = channel_.post_batch(
        works, &state_, where, [&](const Work& work) { check_frame(work, where); });
    if (!ticket.refused()) [[likely]]
      ++state_.handles;
    show_compiler(memory);
    return Operation{ticket.id};
  }
  /// For work that nobody waits for by itself: the scope waits for all of it and reports failures.
  /// Waits for room if the queue is full.
  template <class Work>
  VERBATIM_HOT void post_detached(const Work& work,
                                  std::source_location where = std::source_location::current()) {
    const void* const memory = UnsafeAccess::first_memory(work);
    check_frame(work, where);
    std::chrono::steady_clock::time_point since{};
    for (;;) {
      const detail::Ticket ticket =
          channel_.post(work, detail::SlotState::detached, where, &state_, &state_.detached);
      if (!ticket.refused()) [[likely]]
        break;
      if (!channel_.make_room(queue_of(work), ticket.id, state_, since)) return;
    }
    show_compiler(memory);
  }

  /// Waits for the operation and takes its result. A second time it is `stale`.
  [[nodiscard]] VERBATIM_HOT Result<Completion> wait(Operation operation,
                                                     Timeout limit = kChannelTimeout) noexcept {
    Completion completion;
    detail::Slot& slot = channel_.slot(operation.id_);
    if (!channel_.arrived(slot, operation.id_, completion)) [[unlikely]] {
      if (!channel_.await(slot, operation.id_, limit, detail::Memory::borrowed))
        return std::unexpected(failed(operation));
      completion = detail::last_result.completion;
    }
    --slot.scope->handles;  // Perhaps of a scope around this one.
    return completion;
  }
  /// The result if there is one; looks at the completion queue once.
  [[nodiscard]] std::optional<Result<Completion>> poll(Operation operation) noexcept {
    if (operation.posted() && !channel_.is_ready(channel_.slot(operation.id_), operation.id_))
      return std::nullopt;
    return wait(operation);
  }
  /// Waits for one of them, and says which. Its result is then taken with wait(). `timed_out`
  /// breaks the channel, as any other wait does.
  [[nodiscard]] Result<std::size_t> wait_any(std::span<const Operation> operations,
                                             Timeout limit = kChannelTimeout) noexcept;
  /// Waits for all of them, also after one has failed, and returns the first failure.
  [[nodiscard]] Result<void> wait_all(std::span<const Operation> operations,
                                      Timeout limit = kChannelTimeout) noexcept;

 private:
  friend class Channel;
  explicit Scope(detail::ChannelState& channel) noexcept : channel_(channel) {
    ++channel.open_scopes;
  }
  ~Scope() {
    finish();
    --channel_.open_scopes;
  }

  void finish() noexcept {
    if (state_.busy()) [[unlikely]]
      channel_.finish(state_);
  }
  VERBATIM_COLD Error failed(Operation operation) noexcept {
    if (operation.posted() && detail::last_result.error.code != Errc::stale)
      --channel_.slot(operation.id_).scope->handles;
    return detail::last_result.error;
  }
  template <SendWork Work>
  detail::OperationQueue& queue_of(const Work&) noexcept {
    return channel_.send_queue;
  }
  template <std::size_t N>
  detail::OperationQueue& queue_of(const Receive<N>&) noexcept {
    return channel_.receive_queue;
  }

  // Memory between here and the frame that called the closure dies before the scope is over.
  template <class Work>
  VERBATIM_HOT void check_frame(const Work& work, std::source_location where) const {
    for (const ibv_sge& element : UnsafeAccess::elements_of(work)) {
      // Heap and static memory lie below the stack, mostly: one compare for them. Locals may lie on
      // a stack of AddressSanitizer's own: it has to be asked.
      if (VERBATIM_ASAN || (element.addr >= stack_pointer() && element.addr < frame_)) [[unlikely]]
        check_local(element.addr, where);
    }
  }
  /// Lets g++ -Wall (-Wdangling-pointer), from -O1 on, see that the address of a local of the
  /// closure is kept, if the post is the last thing that the closure does: g++ does not look behind
  /// a later call. It costs nothing: the frame's address is no constant, but g++ decides that only
  /// after it has warned. clang does not find this; check_frame() does, whoever compiled.
  VERBATIM_HOT void show_compiler([[maybe_unused]] const void* memory) const noexcept {
#if defined(__GNUC__) && !defined(__clang__)
    if (__builtin_constant_p(frame_)) detail::must_outlive_the_scope = memory;
#endif
  }
  VERBATIM_HOT static std::uintptr_t stack_pointer() noexcept {
    std::uintptr_t here;
#if defined(__x86_64__)
    asm("mov %%rsp, %0" : "=r"(here));
#elif defined(__aarch64__)
    asm("mov %0, sp" : "=r"(here));
#else
    here = ~std::uintptr_t{0};  // Not checked.
#endif
    return here;
  }
  VERBATIM_COLD void check_local(std::uint64_t address, std::source_location where) const;

  /// Calls the closure from a frame of its own: its locals lie below that, everybody else's above.
  template <class F>
  [[gnu::noinline]] static decltype(auto) run(F& body, Scope& scope) {
    scope.frame_ = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#if VERBATIM_ASAN
    // AddressSanitizer places a frame of its own stack a few calls below where it would have been.
    scope.frame_ = reinterpret_cast<std::uintptr_t>(__builtin_alloca(1024));
#endif
    return std::invoke(body, scope);
  }

  detail::ScopeState state_;  // First: slots point at it.
  detail::ChannelState& channel_;
  std::uintptr_t frame_;  // From run() on, which is before anybody sees the scope.
};

namespace detail {
template <class T>
inline constexpr bool kHoldsHandle = false;
template <>
inline constexpr bool kHoldsHandle<Operation> = true;
template <>
inline constexpr bool kHoldsHandle<Scope> = true;
template <class T>
inline constexpr bool kHoldsHandle<T*> = kHoldsHandle<std::remove_cv_t<T>>;
template <class T>
inline constexpr bool kHoldsHandle<T&> = kHoldsHandle<std::remove_cv_t<T>>;
template <template <class...> class Outer, class... Inner>
inline constexpr bool kHoldsHandle<Outer<Inner...>> =
    (kHoldsHandle<std::remove_cv_t<Inner>> || ...);

template <class T>
struct ScopeReturn {  // A plain value, or nothing.
  using Value = T;
  using Failure = Error;
  static constexpr bool kIsResult = false;
};
template <class T, class E>
struct ScopeReturn<std::expected<T, E>> {
  using Value = T;
  using Failure = E;
  static constexpr bool kIsResult = true;
};
}  // namespace detail

}  // namespace verbatim
