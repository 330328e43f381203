// SPDX-License-Identifier: MIT OR Apache-2.0
// The last byte of a buffer that ends in the middle of a word is read in flight.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_last_byte) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, std::span{buffer}.subspan(3, 10));
  use(&buffer[2]);
  use(&buffer[13]);  // Both outside.
  use(&buffer[12]);
  dma::completed(flight, 10);
}

}  // namespace verbatim::test
