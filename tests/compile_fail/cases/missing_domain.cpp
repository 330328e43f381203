// EXPECT: deleted (function|constructor).*Required
// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair cannot be made without domain.
#include "verbatim/verbs/queue_pair_options.hpp"

void misuse(const verbatim::ProtectionDomain& domain, const verbatim::CompletionQueue& queue) {
#ifdef CONTROL
  const verbatim::QueuePairOptions options{.domain = domain,
                                           .send_completions = queue,
                                           .receive_completions = queue,
                                           .access = verbatim::Access::remote_read};
  static_cast<void>(options);
#else
  static_cast<void>(domain);
  const verbatim::QueuePairOptions options{.send_completions = queue,
                                           .receive_completions = queue,
                                           .access = verbatim::Access::remote_read};
  static_cast<void>(options);
#endif
}
