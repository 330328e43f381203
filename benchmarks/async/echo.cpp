// SPDX-License-Identifier: MIT OR Apache-2.0
// The cost of an echo in one thread. callgrind counts the instructions of async_measured().
#include <cstdio>
#include <string>
#include <string_view>

#include "world.hpp"

namespace {

struct Work {
  void (*run)(const Work& work);
  verbatim::async_bench::Echoes& echoes;
  verbatim::Reactor* reactor;
  std::size_t busy;
  long rounds;
};

}  // namespace

extern "C" [[gnu::noinline]] void async_measured(const Work& work) { work.run(work); }

namespace verbatim::async_bench {
namespace {

/// Lookups and allocations of the first echoes must not count.
constexpr long kWarmUp = 5;

void run_work(Work work, const char* kind, std::size_t channels) {
  const long rounds = std::exchange(work.rounds, kWarmUp);
  work.run(work);
  work.rounds = rounds;
  async_measured(work);
  std::printf("{\"kind\":\"%s\",\"channels\":%zu,\"echoes\":%ld}\n", kind, channels,
              rounds * static_cast<long>(work.busy));
}

}  // namespace

int echo(const ProtectionDomain& domain, std::string_view kind, std::size_t channels,
         std::size_t busy, long rounds) {
  if (kind == "blocking") {
    Pairs pairs = make_pairs(domain, {}, channels);
    Echoes echoes{domain, pairs};
    const auto run = [](const Work& work) { work.echoes.block(work.busy, work.rounds); };
    run_work({run, echoes, nullptr, busy, rounds}, "blocking", channels);
    return 0;
  }
  if (kind != "reactor" && kind != "shared") return 2;
  const Receives receives = kind == "shared" ? Receives::shared : Receives::own;
  Reactor reactor = make_reactor(domain, receives, channels);
  Pairs pairs = make_pairs(domain, {.servers = reactor, .clients = reactor}, channels, receives);
  Echoes echoes{domain, pairs, receives};
  echoes.serve(reactor);
  const auto run = [](const Work& work) { work.echoes.ask(*work.reactor, work.busy, work.rounds); };
  run_work({run, echoes, &reactor, busy, rounds}, std::string{kind}.c_str(), channels);
  return 0;
}

}  // namespace verbatim::async_bench
