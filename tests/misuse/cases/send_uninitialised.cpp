// SPDX-License-Identifier: MIT OR Apache-2.0
// The program sends memory that it never wrote.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(send_uninitialised) {
  auto* const buffer = static_cast<std::byte*>(std::malloc(256));
  for (std::size_t i = 0; i < 200; ++i) buffer[i] = std::byte{1};
  Nic nic{"nic send"};
  dma::Flight flight;
  nic.send(flight, {buffer, 200});
  dma::completed(flight, 0);
  nic.send(flight, {buffer, 256});
  dma::completed(flight, 0);
  std::free(buffer);
}

}  // namespace verbatim::test
