// SPDX-License-Identifier: MIT OR Apache-2.0
// The processor reads a buffer that the device is still writing.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_read) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  use(&buffer[7]);
  dma::completed(flight, buffer.size());
}

}  // namespace verbatim::test
