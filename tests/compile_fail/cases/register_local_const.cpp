// EXPECT: register_local\(\) of const memory: use register_read_only
// SPDX-License-Identifier: MIT OR Apache-2.0
// The device may write into memory for local use.
#include <array>

#include "verbatim/verbs/protection_domain.hpp"

void misuse(const verbatim::ProtectionDomain& domain) {
  static const std::array<int, 4> constants{1, 2, 3, 4};
#ifdef CONTROL
  static_cast<void>(domain.register_read_only(constants));
#else
  static_cast<void>(domain.register_local(constants));
#endif
}
