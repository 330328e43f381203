// SPDX-License-Identifier: MIT OR Apache-2.0
// No mistake: everything that must stay silent, in every build.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(none) {
  Bytes buffer(4096);
  Nic receives;
  Nic sends{"nic send"};
  dma::Flight flight;
  dma::Flight other;
  for (std::size_t i = 0; i < 200; ++i) {
    const auto part = std::span{buffer}.subspan(i, 64 + i);
    receives.receive(flight, part);
    use(&part.front() - (i == 0 ? 0 : 1) + (i == 0 ? part.size() : 0));  // A neighbour.
    device_stores(part.data(), part.size());
    dma::completed(flight, part.size());
    use(&part.front());
    scribble(&part.back());
    sends.send(flight, part);
    sends.send(other, part);  // Readers share.
    use(&part.front());
    dma::completed(flight, 0);
    dma::completed(other, 0);
    scribble(&part.front());
    receives.receive(flight, part);
    dma::withdrawn(flight);  // Refused by the device: nothing happened.
    scribble(&part.front());
  }
}

}  // namespace verbatim::test
