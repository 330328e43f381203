// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A call with a deadline, as the functions for sockets want it.
#include <chrono>

#include "channel/socket_address.hpp"

namespace verbatim::test {

[[nodiscard]] inline detail::BoundedCall call(std::chrono::nanoseconds limit = std::chrono::seconds{
                                                  30}) {
  return {.operation = "test", .deadline = detail::deadline_after(limit)};
}

}  // namespace verbatim::test
