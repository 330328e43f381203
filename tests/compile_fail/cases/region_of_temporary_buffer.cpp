// EXPECT: deleted (member )?function.*region
// SPDX-License-Identifier: MIT OR Apache-2.0
// The registration is gone at the end of the statement.
#include <utility>

#include "verbatim/verbs/protection_domain.hpp"

void misuse(const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  const verbatim::Buffer buffer = domain.allocate(10).value();
  static_cast<void>(buffer.region());
#else
  static_cast<void>(domain.allocate(10).value().region());
#endif
}
