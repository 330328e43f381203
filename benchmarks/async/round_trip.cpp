// SPDX-License-Identifier: MIT OR Apache-2.0
// How long an echo takes if the server is in another thread on another core: when the server
// sleeps, and when it always has something to do.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "world.hpp"

namespace verbatim::async_bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Much longer than any thread spins.
constexpr std::chrono::milliseconds kPause{2};
constexpr long kBusyRounds = 50;  ///< For each round with a sleeping server.

/// Pins the thread to the n-th core that this process may use.
void stay_on_core(int number) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || number-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

void print(Echoes& echoes, const char* kind, std::size_t channels, long rounds) {
  const auto timed = [&](std::size_t client) {
    const auto start = Clock::now();
    echoes.ask_once(client);
    return std::chrono::duration<double, std::micro>{Clock::now() - start}.count();
  };
  std::vector<double> woken;
  std::vector<double> busy;
  woken.reserve(static_cast<std::size_t>(rounds));
  busy.reserve(static_cast<std::size_t>(kBusyRounds * rounds));
  for (long i = 0; i < rounds; ++i) {
    std::this_thread::sleep_for(kPause);
    woken.push_back(timed(static_cast<std::size_t>(i) % channels));
  }
  for (long i = 0; i < kBusyRounds * rounds; ++i) busy.push_back(timed(0));
  std::printf("{\"kind\":\"%s\",\"channels\":%zu,\"woken_us\":%.2f,\"busy_us\":%.3f}\n", kind,
              channels, median(std::move(woken)), median(std::move(busy)));
}

}  // namespace

int round_trip(const ProtectionDomain& domain, std::string_view kind, std::size_t channels,
               long rounds) {
  if (kind == "blocking") {
    Pairs pairs = make_pairs(domain, {}, 1);
    Echoes echoes{domain, pairs};
    Buffer place = need(domain.allocate(64));
    std::jthread serving{[&] {
      stay_on_core(1);
      for (;;) {
        auto asked = pairs.servers[0].receive(std::move(place)).wait(kForever);
        if (!asked.result) return;
        auto sent = pairs.servers[0]
                        .send(std::move(asked.buffer), {.length = *asked.result->byte_count()})
                        .wait();
        if (!sent.result) return;
        place = std::move(sent.buffer);
      }
    }};
    stay_on_core(0);
    print(echoes, "blocking", 1, rounds);
    pairs.servers[0].canceller().cancel();
    return 0;
  }
  if (kind != "reactor") return 2;
  Reactor reactor = need(Reactor::create(domain));
  Pairs pairs = make_pairs(domain, {.servers = reactor}, channels);
  Echoes echoes{domain, pairs};
  std::jthread serving{[&] {
    stay_on_core(1);
    echoes.serve(reactor);
    reactor.run();
  }};
  stay_on_core(0);
  print(echoes, "reactor", channels, rounds);
  reactor.stop();
  serving.join();
  return 0;
}

}  // namespace verbatim::async_bench
