// EXPECT: ignoring return
// SPDX-License-Identifier: MIT OR Apache-2.0
// What the device did not take would be forgotten.
#include "verbatim/verbs/batch.hpp"

void misuse(verbatim::unsafe::SendBatch<4>& batch) {
#ifdef CONTROL
  if (const auto posted = batch.post(); !posted) return;
#else
  batch.post();
#endif
}
