// EXPECT: deleted|implicitly-deleted
// SPDX-License-Identifier: MIT OR Apache-2.0
// It owns its channels.
#include "verbatim/multi/multi_channel.hpp"

#include <utility>

void misuse(verbatim::MultiChannel& multi) {
#ifdef CONTROL
  const verbatim::MultiChannel other = std::move(multi);
#else
  const verbatim::MultiChannel other = multi;
#endif
}
