// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The functions that ours replace: those of the installed libibverbs and libc.
///
/// They are looked up at the first call. Nothing here needs a constructor, because hooks are called
/// before constructors run.
#include <atomic>
#include <cerrno>
#include <type_traits>

/// Everything else in the shared objects is hidden; the version scripts repeat this.
#define VERBATIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbatim::preload {

/// The next definition of the function after ours, or nullptr. No version: the default one. In the
/// stand-alone library there is none for a verb.
[[nodiscard]] void* find_original(const char* name, const char* version) noexcept;

template <class Function>
class Original;
template <class R, class... Args>
class Original<R(Args...)> {
 public:
  using Pointer = R (*)(Args...);
  constexpr explicit Original(const char* name, const char* version = nullptr) noexcept
      : name_(name), version_(version) {}

  /// Not noexcept: the thread may be cancelled inside, and then its stack is unwound through this
  /// function.
  R operator()(Args... args) {
    if (const Pointer function = find()) return function(args...);
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<R>) return nullptr;
    if constexpr (std::is_integral_v<R>) return static_cast<R>(EOPNOTSUPP);
  }
  /// Looks it up if necessary.
  Pointer find() noexcept {
    Pointer function = found_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Pointer>(find_original(name_, version_));
      found_.store(function, std::memory_order_release);
    }
    return function;
  }

 private:
  const char* name_;
  const char* version_;
  std::atomic<Pointer> found_{nullptr};
};

}  // namespace verbatim::preload
