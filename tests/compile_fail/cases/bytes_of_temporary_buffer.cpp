// EXPECT: deleted (member )?function.*bytes
// SPDX-License-Identifier: MIT OR Apache-2.0
// The bytes are unmapped at the end of the statement.
#include <utility>

#include "verbatim/verbs/protection_domain.hpp"

void misuse(const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  verbatim::Buffer buffer = domain.allocate(10).value();
  static_cast<void>(buffer.bytes());
#else
  static_cast<void>(domain.allocate(10).value().bytes());
#endif
}
