// SPDX-License-Identifier: MIT OR Apache-2.0
// memcpy() out of a buffer that the device is still writing.
#include <cstring>

#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_copy) {
  Bytes buffer(256);
  Bytes copy(256);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  std::memcpy(copy.data(), buffer.data(), buffer.size());
  dma::completed(flight, buffer.size());
  use(&copy[7]);
}

}  // namespace verbatim::test
