// SPDX-License-Identifier: MIT OR Apache-2.0
// The program reads more than the peer sent.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_past_length) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  device_stores(buffer.data(), 16);
  dma::completed(flight, 16);
  use(&buffer[15]);
  use(&buffer[16]);
}

}  // namespace verbatim::test
