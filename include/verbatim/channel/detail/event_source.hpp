// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A descriptor that a Reactor waits for, besides completions.
#include "verbatim/base/language.hpp"

#include <cstdint>

namespace verbatim::detail {

struct EventSource {
  /// `events` are those of epoll.
  void (*ready)(EventSource& self, std::uint32_t events) noexcept;
};

}  // namespace verbatim::detail
