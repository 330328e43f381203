// SPDX-License-Identifier: MIT OR Apache-2.0
// The processor writes to a buffer that the device is still writing.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_write) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  scribble(&buffer[7]);
  dma::completed(flight, buffer.size());
}

}  // namespace verbatim::test
