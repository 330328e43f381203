// SPDX-License-Identifier: MIT OR Apache-2.0
// Another thread, properly started, reads a buffer in flight.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_on_another_thread) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  std::thread{[&] { use(&buffer[7]); }}.join();
  dma::completed(flight, buffer.size());
}

}  // namespace verbatim::test
