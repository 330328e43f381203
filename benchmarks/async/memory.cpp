// SPDX-License-Identifier: MIT OR Apache-2.0
// What a connected channel of a reactor takes: memory of the process, and descriptors.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "world.hpp"

namespace verbatim::async_bench {
namespace {

long resident_kib() {
  long total = 0;
  long resident = 0;
  std::ifstream{"/proc/self/statm"} >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

long descriptors() {
  using std::filesystem::directory_iterator;
  return std::distance(directory_iterator{"/proc/self/fd"}, directory_iterator{});
}

/// Enough rounds to use each queue from its first entry to its last.
constexpr long kRounds = 2L * kDepth;

}  // namespace

int memory(const ProtectionDomain& domain, std::string_view kind, std::size_t channels) {
  if (kind != "reactor" && kind != "shared") return 2;
  const Receives receives = kind == "shared" ? Receives::shared : Receives::own;
  Reactor reactor = make_reactor(domain, receives, channels / 2);
  const Sides on{.servers = reactor, .clients = reactor};
  const Pairs first = make_pairs(domain, on, 1, receives);  // Allocates what any use needs.
  const long memory_before = resident_kib();
  const long descriptors_before = descriptors();
  Pairs pairs = make_pairs(domain, on, channels / 2, receives);
  const long opened = descriptors() - descriptors_before;
  Echoes echoes{domain, pairs, receives};
  echoes.serve(reactor);
  echoes.ask(reactor, channels / 2, kRounds);
  const double kib = static_cast<double>(resident_kib() - memory_before);
  std::printf("{\"channels\":%zu,\"kib_per_channel\":%.1f,\"descriptors\":%ld}\n", channels,
              kib / static_cast<double>(channels), opened);
  return 0;
}

}  // namespace verbatim::async_bench
