// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A value that is computed at its first use, also in a forked child.
///
/// If another thread of the parent was computing a local static, the child waits for it for ever:
/// that thread does not exist there. glibc's pthread_once(), behind std::call_once(), begins again.
#include <mutex>
#include <optional>

namespace verbatim::detail {

/// `static constinit Once<bool> flag; return flag([] { return ask(); });`
template <class T>
class Once {
 public:
  constexpr Once() = default;
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  template <class Make>
  const T& operator()(Make make) {
    std::call_once(once_, [&] { value_.emplace(make()); });
    return *value_;
  }

 private:
  std::once_flag once_;
  std::optional<T> value_{};
};

}  // namespace verbatim::detail
