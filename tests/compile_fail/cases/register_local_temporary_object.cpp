// EXPECT: register_local\(\) of a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The object is gone before the region is.
#include <cstdint>

#include "verbatim/verbs/protection_domain.hpp"

struct Record {
  std::uint64_t number;
};

void misuse(const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  Record record{7};
  static_cast<void>(domain.register_local(record));
#else
  static_cast<void>(domain.register_local(Record{7}));
#endif
}
