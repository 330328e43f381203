// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the cases of channel/ with coroutines share: two channels of one reactor.
#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "misuse/channel_misuse.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {

struct Reacting {
  static constexpr std::size_t kSize = 256;

  Context context = must(open_device("soft0"));
  ProtectionDomain domain = must(context.allocate_domain());
  Reactor reactor = must(Reactor::create(domain));
  std::pair<Channel, Channel> pair = connect();
  Channel& left = pair.first;
  Channel& right = pair.second;

  [[nodiscard]] std::pair<Channel, Channel> connect() {
    return must(connect_pair(domain, {.on = reactor, .max_sends = 3, .max_receives = 3}));
  }
  [[nodiscard]] Buffer memory() const { return must(domain.allocate(kSize)); }
};

/// Waits for a message, for ever. With its buffer it gives up, with the reason.
inline Task<void> receive_one(Channel& channel, Buffer buffer) {
  auto [back, result] = co_await channel.receive(std::move(buffer));
  if (!back) give_up({.code = Errc::malformed, .operation = "no buffer"});
  if (!result) give_up(result.error());
}

/// Until a thread of this process sleeps in the kernel; 10 s at most.
inline void wait_until_asleep(pid_t thread) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (std::chrono::steady_clock::now() < end) {
    std::ifstream stat{"/proc/self/task/" + std::to_string(thread) + "/stat"};
    stat.ignore(std::numeric_limits<std::streamsize>::max(), ')');
    char state = 0;
    if (stat >> state && state == 'S') return;
    sched_yield();
  }
}

}  // namespace verbatim::test
