// SPDX-License-Identifier: MIT OR Apache-2.0
// Another thread fills the send buffer; nothing orders that before the post.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(send_unordered) {
  Bytes buffer(256);
  Nic nic{"nic send"};
  dma::Flight flight;
  Signal filled;
  std::thread filler{[&] {
    scribble(&buffer[7]);
    filled.set();
  }};
  filled.wait();
  nic.send(flight, buffer);
  dma::completed(flight, 0);
  filler.join();
}

}  // namespace verbatim::test
