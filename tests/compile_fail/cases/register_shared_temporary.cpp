// EXPECT: no matching (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
// Peers would write to memory that is gone.
#include <cstddef>
#include <vector>

#include "verbatim/verbs/protection_domain.hpp"

void misuse(const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  std::vector<std::byte> named(10);
  static_cast<void>(domain.register_shared(named));
#else
  static_cast<void>(domain.register_shared(std::vector<std::byte>(10)));
#endif
}
