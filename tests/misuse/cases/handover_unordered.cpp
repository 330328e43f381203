// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread polls; another reads the buffer, and nothing orders the two.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(handover_unordered) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  device_stores(buffer.data(), buffer.size());
  Signal polled;
  std::thread poller{[&] {
    dma::completed(flight, buffer.size());
    polled.set();
  }};
  polled.wait();
  use(&buffer[7]);
  poller.join();
}

}  // namespace verbatim::test
