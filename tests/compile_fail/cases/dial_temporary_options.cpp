// EXPECT: (use of|call to) deleted (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
// g++ 12 would destroy the options twice.
#include "verbatim/reactor/reactor.hpp"

verbatim::Task<void> misuse(verbatim::Reactor& reactor, const verbatim::ProtectionDomain& domain) {
#ifdef CONTROL
  const verbatim::DialOptions options{.private_data = {}};
  static_cast<void>(co_await reactor.dial(domain, "host:1", options));
#else
  static_cast<void>(co_await reactor.dial(domain, "host:1", {.private_data = {}}));
#endif
}
