// EXPECT: register_local\(\) of a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The region would outlive its memory.
#include <cstddef>
#include <vector>

#include "verbatim/verbs/protection_domain.hpp"

void misuse(const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  std::vector<std::byte> named(10);
  static_cast<void>(domain.register_local(named));
#else
  static_cast<void>(domain.register_local(std::vector<std::byte>(10)));
#endif
}
