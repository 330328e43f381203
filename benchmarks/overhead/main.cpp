// SPDX-License-Identifier: MIT OR Apache-2.0
//
// overhead_driver list                       the cases, one per line
// overhead_driver count CASE OPERATIONS      runs a case; JSON with the allocations. Under
//                                            callgrind, --toggle-collect=overhead_measured counts
//                                            the instructions of exactly these operations.
// overhead_driver time ROUNDS OPERATIONS     the cases in turn, OPERATIONS at a time; JSON per case
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "allocations.hpp"
#include "fixture.hpp"
#include "providers/null.hpp"

namespace verbatim::overhead {

constexpr std::array kCases{
    Case{"raw", "raw", &raw},
    Case{"queue_pair", "raw", &queue_pair},
    Case{"raw.batch", "raw.batch", &raw_batch},
    Case{"channel.blocking", "raw", &channel_blocking},
    Case{"channel.buffer", "raw", &channel_buffer},
    Case{"channel.owned", "raw", &channel_owned},
    Case{"channel.unsafe", "raw", &channel_unsafe},
    Case{"channel.scope", "raw", &channel_scope},
    Case{"channel.scope_each", "raw", &channel_scope_each},
    Case{"channel.detached", "raw", &channel_detached},
    Case{"channel.batch", "raw.batch", &channel_batch},
    Case{"async.send", "raw", &async_send},
    Case{"async.send16", "raw", &async_send16},
    Case{"async.task", "raw", &async_task},
    Case{"async.tags", "raw", &async_tags},
    Case{"async.asio", "raw", &async_asio},
    Case{"multi.multicast", "raw", &multi_multicast},
    Case{"pool.take", "raw", &pool_take},
    Case{"cache.find", "raw", &cache_find},
    Case{"soft.inprocess", "raw", &soft_inprocess},
};

void raw(Fixture& fixture, long operations) { raw_send(&fixture.raw, operations); }
void raw_batch(Fixture& fixture, long operations) { raw_send_chain(&fixture.raw, operations); }

void report(const Error& error) {
  std::fprintf(stderr, "overhead_driver: %s\n", to_string(error).c_str());
  std::exit(1);
}

void report(const Completion& completion) {
  std::fprintf(stderr, "overhead_driver: request %llu failed\n",
               static_cast<unsigned long long>(completion.id()));
  std::exit(1);
}

namespace {

Fixture make_fixture() {
  const Provider& provider = *verbatim_null_provider();
  // Manual events, because otherwise a thread would read them, and only the case may run.
  Context context =
      need(need(list_devices(provider)).at(0).open({.events = EventDelivery::manual}));
  ProtectionDomain domain = need(context.allocate_domain());
  std::vector<std::byte> memory(4096);
  MemoryRegion region = need(domain.register_local(memory));
  CompletionQueue queue = need(context.create_completion_queue({.depth = 512}));
  auto prepared = need(QueuePair::prepare({.domain = domain,
                                           .send_completions = queue,
                                           .receive_completions = queue,
                                           .access = AccessFlags{}}));
  const Endpoint self = prepared.endpoint();
  QueuePair connected = need(std::move(prepared).connect(self));
  const std::span<std::byte> message = std::span{memory}.subspan(64, 8);
  const raw_connection bare{unsafe::native(connected), unsafe::native(queue),
                            unsafe::native(region), message.data(), message.size()};
  return {std::move(context), std::move(domain),    std::move(memory), std::move(region),
          std::move(queue),   std::move(connected), message,           bare};
}

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

/// A move to another core in the middle of a round would count, too.
void stay_on_this_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

/// The cases take turns, one slice each, so that other activity of the machine affects all of them.
/// A slice is much shorter than a time slice of the system. So most slices are not interrupted, and
/// the median is one of those. Returns ns per operation for each case.
std::array<double, kCases.size()> time_round(Fixture& fixture, long operations) {
  constexpr int kSlices = 51;
  std::array<std::vector<double>, kCases.size()> slices;
  for (int slice = 0; slice < kSlices; ++slice) {
    for (std::size_t turn = 0; turn < kCases.size(); ++turn) {
      // Forwards and backwards in turn, so that no case always follows the same other case.
      const std::size_t i = slice % 2 == 0 ? turn : kCases.size() - 1 - turn;
      const auto start = Clock::now();
      kCases[i].run(fixture, operations);
      const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
      slices[i].push_back(taken.count() / static_cast<double>(operations));
    }
  }
  std::array<double, kCases.size()> ns;
  for (std::size_t i = 0; i < kCases.size(); ++i) ns[i] = median(std::move(slices[i]));
  return ns;
}

int time(Fixture& fixture, long rounds, long operations) {
  stay_on_this_core();
  std::array<std::vector<double>, kCases.size()> ns;
  std::array<std::vector<double>, kCases.size()> ratios;
  const auto index = [](const char* name) {
    const auto found = std::ranges::find(kCases, std::string_view{name}, &Case::name);
    return static_cast<std::size_t>(found - kCases.begin());
  };
  for (long round = 0; round < rounds; ++round) {
    const auto times = time_round(fixture, operations);
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      ns[i].push_back(times[i]);
      ratios[i].push_back(times[i] / times[index(kCases[i].base)]);
    }
  }
  for (std::size_t i = 0; i < kCases.size(); ++i)
    std::printf("{\"case\":\"%s\",\"base\":\"%s\",\"ns\":%.2f,\"ns_ratio\":%.3f}\n", kCases[i].name,
                kCases[i].base, median(std::move(ns[i])), median(std::move(ratios[i])));
  return 0;
}

}  // namespace
}  // namespace verbatim::overhead

using namespace verbatim::overhead;

/// callgrind selects this function by its name, and counts nothing else.
extern "C" [[gnu::noinline]] void overhead_measured(const Case& each, Fixture& fixture,
                                                    long operations) {
  each.run(fixture, operations);
}

namespace {

int count(Fixture& fixture, std::string_view name, long operations) {
  const auto found = std::ranges::find(kCases, name, &Case::name);
  if (found == kCases.end()) return 2;
  found->run(fixture, 100);  // First-call lookups must not count.
  const long before = allocations();
  overhead_measured(*found, fixture, operations);
  std::printf("{\"case\":\"%s\",\"operations\":%ld,\"allocations\":%ld}\n", found->name, operations,
              allocations() - before);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "list") {
    for (const Case& each : kCases) std::puts(each.name);
    return 0;
  }
  if (arguments.size() == 3 && (arguments[0] == "count" || arguments[0] == "time")) {
    Fixture fixture = make_fixture();
    const long operations = std::atol(argv[3]);
    return arguments[0] == "count" ? count(fixture, arguments[1], operations)
                                   : time(fixture, std::atol(argv[2]), operations);
  }
  std::fputs("usage: overhead_driver list | count CASE OPERATIONS | time ROUNDS OPERATIONS\n",
             stderr);
  return 2;
}
