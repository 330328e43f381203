// SPDX-License-Identifier: MIT OR Apache-2.0
// A send on one queue shares bytes with a receive on another.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(overlap_other_queue) {
  Bytes buffer(256);
  Nic receives;
  Nic sends{"nic send"};
  dma::Flight first;
  dma::Flight second;
  receives.receive(first, std::span{buffer}.first(129));
  sends.send(second, std::span{buffer}.subspan(128));
}

}  // namespace verbatim::test
