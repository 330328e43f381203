// EXPECT: no matching function for call to .*scatter|no matching member function for call to
// .scatter SPDX-License-Identifier: MIT OR Apache-2.0 What is received is gathered.
#include "verbatim/multi/multi_channel.hpp"

#include <array>

void misuse(verbatim::MultiChannel& multi, verbatim::Buffer& buffer,
            std::span<verbatim::Completion> out) {
  const std::array works{verbatim::PeerWork{0, verbatim::Receive{buffer.scatter()}}};
#ifdef CONTROL
  static_cast<void>(multi.gather(works, out));
#else
  static_cast<void>(out);
  static_cast<void>(multi.scatter(works));
#endif
}
