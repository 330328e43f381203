// EXPECT: no matching function for call to .*post
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only a connected queue pair can send; receives may be posted before.
#include "verbatim/verbs/unsafe.hpp"

void misuse(verbatim::PreparedQueuePair& prepared) {
#ifdef CONTROL
  static_cast<void>(verbatim::unsafe::post(prepared, verbatim::Receive{}, verbatim::WrId{1}));
#else
  static_cast<void>(verbatim::unsafe::post(prepared, verbatim::Send{}, verbatim::WrId{1}));
#endif
}
