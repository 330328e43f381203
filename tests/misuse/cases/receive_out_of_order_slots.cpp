// SPDX-License-Identifier: MIT OR Apache-2.0
// The same where each slot has a queue, as that of a shared receive queue.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_out_of_order_slots) {
  Bytes buffer(256);
  Nic first_slot;
  Nic second_slot;
  dma::Flight first;
  dma::Flight second;
  first_slot.receive(first, std::span{buffer}.first(128));
  second_slot.receive(second, std::span{buffer}.subspan(128));
  dma::completed(second, 128);
  use(&buffer[7]);
  dma::completed(first, 128);
}

}  // namespace verbatim::test
