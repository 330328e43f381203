// SPDX-License-Identifier: MIT OR Apache-2.0
// The processor writes to a buffer that the device is still reading.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(send_write) {
  Bytes buffer(256);
  Nic nic{"nic send"};
  dma::Flight flight;
  nic.send(flight, buffer);
  use(&buffer[7]);  // Reading it is fine.
  scribble(&buffer[7]);
  dma::completed(flight, 0);
}

}  // namespace verbatim::test
