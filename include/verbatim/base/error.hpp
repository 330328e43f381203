// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A failure as a value: cheap to carry, complete enough to act on.
///
/// There are three outcomes. A bug in the program goes to `check()` and ends it. An operating
/// failure is an `Error` inside a `Result`. "Nothing yet" is 0 or an empty optional. A failed *work
/// request* is none of these: it is a completion (see verbs/work_error.hpp).
#include "verbatim/base/language.hpp"

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <type_traits>

#include "verbatim/base/work_status.hpp"

namespace verbatim {

/// One enumerator per decision that a caller can make.
enum class Errc : std::uint8_t {
  invalid_argument,   ///< Fix the call: `field` names the argument, `value` is what it was.
  limit_exceeded,     ///< Ask for less: `value` is above `limit`.
  not_found,          ///< No such device, port, partition, file or library.
  permission_denied,  ///< Get the right to do it (device node, capability, access flags).
  out_of_resources,   ///< Raise a limit or free something (memory, memlock, descriptors).
  unsupported,        ///< This device, kernel or library cannot do it at all.
  would_block,        ///< The queue is full: take completions, then try again.
  busy,               ///< Something still uses the object.
  timed_out,          ///< The deadline passed.
  not_ready,          ///< The state of a port or queue pair forbids it.
  malformed,          ///< Bytes from a peer or a file are not what they claim to be.
  incompatible,       ///< Two valid endpoints cannot talk: `field` says where they differ.
  forked,             ///< The object belongs to the parent process.
  device_failed,      ///< The device or one of its queues is broken: recreate.
  work_failed,  ///< The device took it, and it failed: status_of(); `limit` is the vendor code.
  cancelled,    ///< The program asked for it.
  broken,       ///< The channel failed earlier: its cause() says why.
  closed,       ///< The channel was closed before the work could finish.
  peer_closed,  ///< The peer closed the channel properly: it sends no more.
  peer_lost,    ///< The peer's process or host is gone, without closing.
  stale,        ///< The operation is over, and its result was already taken.
  driver,       ///< Any other failure of the driver: see `os_error`.
};

[[nodiscard]] std::string_view to_string(Errc code) noexcept;

/// Trivially copyable and one cache line, so it can be stored anywhere and dropped for free. The
/// strings have static storage. `text` holds a short name that does not, such as a device's.
struct Error {
  Errc code{};
  std::int32_t os_error = 0;    ///< errno, or 0 if no system call failed.
  const char* operation = "";   ///< The call that failed, as the verbs name it.
  const char* field = "";       ///< The argument or attribute at fault, or "".
  std::uint64_t value = 0;      ///< What it was.
  std::uint64_t limit = 0;      ///< Its maximum, or required value, or 0.
  std::array<char, 24> text{};  ///< A name, truncated, zero-terminated.

  [[nodiscard]] Error with_text(std::string_view name) const noexcept;
  [[nodiscard]] std::string_view text_view() const noexcept;

  /// An error equals its code: `if (result.error() == Errc::would_block)`.
  friend constexpr bool operator==(const Error& error, Errc expected) noexcept {
    return error.code == expected;
  }
};
static_assert(sizeof(Error) <= 64 && std::is_trivially_copyable_v<Error>);

template <class T>
using Result = std::expected<T, Error>;

/// A result equals the code it failed with: `if (result == Errc::timed_out)`. If the code is in a
/// variable, write `result.error() == code`. (The rvalue reference makes this the better match:
/// std::expected compares itself with anything.)
template <class T>
[[nodiscard]] constexpr bool operator==(const Result<T>& result, Errc&& expected) noexcept {
  return !result.has_value() && result.error() == expected;
}

/// The status of a `work_failed`.
[[nodiscard]] WorkStatus status_of(const Error& error) noexcept;

/// The only mapping from errno to a decision.
[[nodiscard]] Errc errc_from_errno(int os_error) noexcept;

/// The error of a verb that failed with `os_error`.
[[nodiscard]] Error os_failure(const char* operation, int os_error) noexcept;

/// One line: operation, code, field, value, limit, errno text. explain() adds the causes.
[[nodiscard]] std::string to_string(const Error& error);

}  // namespace verbatim
