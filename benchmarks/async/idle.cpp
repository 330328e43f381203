// SPDX-License-Identifier: MIT OR Apache-2.0
// How often a process wakes up while all its channels wait for a message, and whether they still
// work afterwards.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "world.hpp"

namespace verbatim::async_bench {
namespace {

/// How often all threads except the calling one have gone to sleep. A thread that goes to sleep
/// counts one voluntary context switch.
long times_asleep() {
  long times = 0;
  for (const auto& thread : std::filesystem::directory_iterator{"/proc/self/task"}) {
    if (thread.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status{thread.path() / "status"};
    for (std::string word; status >> word;)
      if (long count = 0; word == "voluntary_ctxt_switches:" && status >> count) times += count;
  }
  return times;
}

}  // namespace

int idle(const ProtectionDomain& domain, std::size_t channels, long seconds) {
  Reactor servers = need(Reactor::create(domain));
  Reactor clients = need(Reactor::create(domain));
  Pairs pairs = make_pairs(domain, {.servers = servers, .clients = clients}, channels);
  Echoes echoes{domain, pairs};
  std::jthread serving{[&] {
    echoes.serve(servers);
    servers.run();
  }};
  // wait: the benchmark measures a period of time.
  std::this_thread::sleep_for(std::chrono::seconds{1});
  const long before = times_asleep();
  std::this_thread::sleep_for(std::chrono::seconds{seconds - 1});
  const long wake_ups = times_asleep() - before;
  echoes.ask(clients, channels, 1);
  servers.stop();
  serving.join();
  std::printf("{\"channels\":%zu,\"seconds\":%ld,\"wake_ups\":%ld,\"echoes\":%zu}\n", channels,
              seconds, wake_ups, channels);
  return 0;
}

}  // namespace verbatim::async_bench
