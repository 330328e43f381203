// EXPECT: no match|does not satisfy|constraints not satisfied|no matching
// SPDX-License-Identifier: MIT OR Apache-2.0
// A string is more than its bytes.
#include <string>

#include "verbatim/verbs/protection_domain.hpp"

void misuse(const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  static_cast<void>(domain.allocate<char>(3));
#else
  static_cast<void>(domain.allocate<std::string>(3));
#endif
}
