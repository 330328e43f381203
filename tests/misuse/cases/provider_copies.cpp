// SPDX-License-Identifier: MIT OR Apache-2.0
// Not the program's mistake: the provider's library writes to the buffer, on the processor.
#include <dlfcn.h>

#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(provider_copies) {
  void* const library = dlopen(std::getenv("VERBATIM_FAKE_LIBMLX5"), RTLD_NOW);
  if (library == nullptr) std::abort();
  using Poll = void(void* to, const void* from, std::size_t size);
  auto* const poll = reinterpret_cast<Poll*>(dlsym(library, "fake_poll_cq"));
  Bytes buffer(256);
  const Bytes completion(32);
  Nic nic;
  dma::Flight flight;
  nic.receive(flight, buffer);
  poll(buffer.data(), completion.data(), completion.size());
  dma::completed(flight, completion.size());
}

}  // namespace verbatim::test
