// SPDX-License-Identifier: MIT OR Apache-2.0
// The second receive completed; the program reads the first.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_out_of_order) {
  Bytes buffer(256);
  Nic nic;
  dma::Flight first;
  dma::Flight second;
  nic.receive(first, std::span{buffer}.first(128));
  nic.receive(second, std::span{buffer}.subspan(128));
  dma::completed(second, 128);
  use(&buffer[7]);
  dma::completed(first, 128);
}

}  // namespace verbatim::test
