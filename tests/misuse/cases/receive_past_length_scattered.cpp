// SPDX-License-Identifier: MIT OR Apache-2.0
// The message fills the first element and part of the second; the program reads behind that.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_past_length_scattered) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, {{buffer.data(), 64}, {buffer.data() + 128, 64}});
  device_stores(buffer.data(), 64);
  device_stores(buffer.data() + 128, 16);
  dma::completed(flight, 64 + 16);
  use(&buffer[63]);
  use(&buffer[128 + 15]);
  use(&buffer[128 + 16]);
}

}  // namespace verbatim::test
