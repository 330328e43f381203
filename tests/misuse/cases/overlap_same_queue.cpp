// SPDX-License-Identifier: MIT OR Apache-2.0
// Two receives on one queue share bytes.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(overlap_same_queue) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight first;
  dma::Flight second;
  nic.receive(first, std::span{buffer}.first(129));
  nic.receive(second, std::span{buffer}.subspan(128));
}

}  // namespace verbatim::test
