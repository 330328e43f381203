// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A set of enumerators: a bit mask that cannot be mixed with another bit mask.
///
/// `Flags<E>` is a structural type, so a set may be a template argument (`RemoteSpan<T, A>`).
/// An enum opts in to `a | b` with `template <> inline constexpr bool kIsFlag<E> = true;`.
#include "verbatim/base/language.hpp"

#include <type_traits>
#include <utility>

namespace verbatim {

template <class E>
inline constexpr bool kIsFlag = false;

template <class E>
struct Flags {
  using Bits = std::underlying_type_t<E>;

  Bits bits = 0;  ///< Public to make the type structural. The encoding is that of the verbs.

  constexpr Flags() noexcept = default;
  constexpr Flags(E flag) noexcept : bits(std::to_underlying(flag)) {}
  [[nodiscard]] static constexpr Flags from_bits(Bits raw) noexcept {
    Flags flags;
    flags.bits = raw;
    return flags;
  }

  [[nodiscard]] constexpr bool has(Flags other) const noexcept {
    return (bits & other.bits) == other.bits;
  }
  [[nodiscard]] constexpr bool has_any(Flags other) const noexcept {
    return (bits & other.bits) != 0;
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits == 0; }

  [[nodiscard]] constexpr Flags without(Flags other) const noexcept {
    return from_bits(static_cast<Bits>(bits & static_cast<Bits>(~other.bits)));
  }
  constexpr Flags& operator|=(Flags other) noexcept {
    bits = static_cast<Bits>(bits | other.bits);
    return *this;
  }
  friend constexpr Flags operator|(Flags a, Flags b) noexcept { return a |= b; }
  friend constexpr bool operator==(Flags, Flags) noexcept = default;
};

template <class E>
  requires kIsFlag<E>
[[nodiscard]] constexpr Flags<E> operator|(E a, E b) noexcept {
  return Flags<E>{a} | Flags<E>{b};
}

}  // namespace verbatim
