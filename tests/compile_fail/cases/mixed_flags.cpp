// EXPECT: no match for .operator\||invalid operands to binary
// SPDX-License-Identifier: MIT OR Apache-2.0
// Rights and events are different sets.
#include "verbatim/verbs/access.hpp"
#include "verbatim/verbs/events.hpp"

void misuse() {
#ifdef CONTROL
  const auto rights = verbatim::Access::local_write | verbatim::Access::remote_read;
  static_cast<void>(rights);
#else
  const auto mixed = verbatim::Access::local_write | verbatim::EventType::port_error;
  static_cast<void>(mixed);
#endif
}
