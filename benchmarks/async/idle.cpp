// SPDX-License-Identifier: MIT OR Apache-2.0
// How often a process wakes up while all its channels wait for a message, and whether they still
// work afterwards.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
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

/// Whether all threads except the calling one sleep.
bool all_asleep() {
  for (const auto& thread : std::filesystem::directory_iterator{"/proc/self/task"}) {
    if (thread.path().filename() == std::to_string(gettid())) continue;
    std::ifstream stat{thread.path() / "stat"};
    stat.ignore(std::numeric_limits<std::streamsize>::max(), ')');
    char state = 0;
    if (stat >> state && state != 'S') return false;
  }
  return true;
}

/// Until nobody has woken up for a second, because the start may take long on a busy machine. A
/// thread that wakes up more often is counted afterwards.
void wait_until_quiet() {
  constexpr int kMostSeconds = 60;
  long before = -1;
  for (int second = 0; second < kMostSeconds; ++second) {
    const long now = times_asleep();
    if (now == before && all_asleep()) return;
    before = now;
    std::this_thread::sleep_for(std::chrono::seconds{1});  // wait: for a second without a wake-up
  }
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
  wait_until_quiet();
  const long before = times_asleep();
  // wait: the benchmark measures a period of time.
  std::this_thread::sleep_for(std::chrono::seconds{seconds});
  const long wake_ups = times_asleep() - before;
  echoes.ask(clients, channels, 1);
  servers.stop();
  serving.join();
  std::printf("{\"channels\":%zu,\"seconds\":%ld,\"wake_ups\":%ld,\"echoes\":%zu}\n", channels,
              seconds, wake_ups, channels);
  return 0;
}

}  // namespace verbatim::async_bench
