// EXPECT: could not convert|cannot convert|no viable conversion|cannot initialize
// SPDX-License-Identifier: MIT OR Apache-2.0
// A local key is not for peers.
#include "verbatim/base/ids.hpp"

void misuse(verbatim::LocalKey local, verbatim::RemoteKey remote) {
#ifdef CONTROL
  const verbatim::RemoteKey key = remote;
  static_cast<void>(key), static_cast<void>(local);
#else
  const verbatim::RemoteKey key = local;
  static_cast<void>(key), static_cast<void>(remote);
#endif
}
