// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive buffer is freed in flight.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(free_received) {
  Nic nic;
  dma::Flight flight;
  auto* const buffer = static_cast<std::byte*>(std::malloc(256));
  nic.receive(flight, {buffer + 64, 64});
  std::free(buffer);
}

}  // namespace verbatim::test
