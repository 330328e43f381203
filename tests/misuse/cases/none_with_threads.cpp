// SPDX-License-Identifier: MIT OR Apache-2.0
// No mistake: threads that post on one queue, poll for each other and hand over.
#include "misuse/misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(none_with_threads) {
  constexpr std::size_t kThreads = 3;
  Bytes buffer(kThreads * 1024);
  Nic nic;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, mine = std::span{buffer}.subspan(t * 1024, 1024)] {
      dma::Flight flight;
      for (int round = 0; round < 20; ++round) {
        std::atomic<bool> polled{false};
        nic.receive(flight, mine);
        device_stores(mine.data(), mine.size());
        std::thread poller{[&] {
          dma::completed(flight, mine.size());
          polled.store(true, std::memory_order_release);
        }};
        while (!polled.load(std::memory_order_acquire)) sched_yield();
        use(&mine.front());
        scribble(&mine.back());
        poller.join();
      }
    });
  for (std::thread& each : threads) each.join();
}

}  // namespace verbatim::test
