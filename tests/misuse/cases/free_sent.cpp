// SPDX-License-Identifier: MIT OR Apache-2.0
// A send buffer is freed in flight.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(free_sent) {
  Nic nic{"nic send"};
  dma::Flight flight;
  auto* const buffer = static_cast<std::byte*>(std::calloc(1, 256));
  nic.send(flight, {buffer, 256});
  std::free(buffer);
}

}  // namespace verbatim::test
