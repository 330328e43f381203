// SPDX-License-Identifier: MIT OR Apache-2.0
// The vector that a receive goes into gets another element, and moves.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(vector_grows) {
  Nic nic;
  dma::Flight flight;
  Bytes buffer(256);
  buffer.shrink_to_fit();
  nic.receive(flight, std::span{buffer}.first(64));
  buffer.emplace_back();
}

}  // namespace verbatim::test
