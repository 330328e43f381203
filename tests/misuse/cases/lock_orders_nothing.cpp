// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads race on their own memory; both only happen to post as well.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(lock_orders_nothing) {
  Bytes buffer(256);
  Bytes shared(8);
  const auto post_one = [&](std::size_t offset) {
    Nic nic;
    dma::Flight flight;
    nic.receive(flight, std::span{buffer}.subspan(offset, 64));
    dma::completed(flight, 64);
  };
  Signal written;
  std::thread writer{[&] {
    scribble(shared.data());
    post_one(0);
    written.set();
  }};
  written.wait();
  post_one(128);
  use(shared.data());
  writer.join();
}

}  // namespace verbatim::test
