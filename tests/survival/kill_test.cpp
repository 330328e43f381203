// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that is killed at any moment does not take others with it. Its peers soon get
//       error completions, their other connections continue, and nothing stays behind.
// Method: three processes, each with checked traffic to both others; kill -9 of a random one at a
//         random moment; then the two others must each see their connection to it break, and move
//         more checked data between them. Up to 100 times (VERBATIM_STRESS).
// Covers: soft/engine.cpp
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "support/seed.hpp"
#include "survival/conversation.hpp"
#include "survival/datagrams.hpp"
#include "survival/process.hpp"

namespace verbatim::test {

/// Arguments: the seed; "own" or "shared": which receives; with shared ones, datagrams too. Links:
/// to the two others. Sends: r (ready), o (the other lives on). Receives: g (go), 0 or 1 (which of
/// the others was killed), q (quit).
int play_mesh(const std::vector<std::string>& role) {
  const std::uint64_t seed = std::stoull(role.at(1));
  const Control control{kControlFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Link links[] = {Link{kFirstLinkFd}, Link{kFirstLinkFd + 1}};
  const bool shared = role.at(2) == "shared";
  std::optional<SharedSink> sink;
  if (shared) sink.emplace(domain, Conversation::kReceives, Conversation::kBytes);
  SharedSink* const from = shared ? &*sink : nullptr;
  Conversation first{domain, links[0], seed, Conversation::Checks::all, from};
  Conversation second{domain, links[1], seed + 1, Conversation::Checks::all, from};
  Conversation* const others[] = {&first, &second};
  std::optional<DatagramTalk> datagrams[2];
  for (std::size_t i = 0; shared && i < 2; ++i)
    datagrams[i].emplace(domain, links[i], seed + 2 + i);
  const auto datagrams_of = [&](std::size_t other) {
    return datagrams[other] ? datagrams[other]->received() : 0;
  };
  control.say('r');
  if (control.hear() != 'g') return 1;
  constexpr std::uint64_t kMore = 30;
  std::optional<std::size_t> victim;
  std::uint64_t goal = 0;
  std::uint64_t datagram_goal = 0;
  for (bool reported = false;;) {
    for (Conversation* const each : others) each->step();
    for (auto& each : datagrams)
      if (each) each->step();
    std::this_thread::yield();
    if (const auto word = control.overhear()) {
      if (*word == 'q') return 0;
      victim = static_cast<std::size_t>(*word - '0');
      goal = others[1 - *victim]->received() + kMore;
      datagram_goal = shared ? datagrams_of(1 - *victim) + kMore : 0;
    }
    if (!victim || reported) continue;
    const Conversation& dead = *others[*victim];
    const Conversation& alive = *others[1 - *victim];
    if (alive.broken())
      give_up("the wrong connection broke: " + std::string{to_string(*alive.broken())},
              Where::current());
    if (!dead.broken() || !dead.is_drained() || alive.received() < goal ||
        datagrams_of(1 - *victim) < datagram_goal)
      continue;
    if (*dead.broken() != WorkStatus::retry_exceeded && *dead.broken() != WorkStatus::flushed)
      give_up("an odd end: " + std::string{to_string(*dead.broken())}, Where::current());
    control.say('o');
    reported = true;
  }
}

namespace {

/// Three processes that talk to each other.
std::vector<Process> start_mesh(std::uint64_t seed, const char* receives = "own") {
  const auto [a, b] = socket_pair();
  const auto [c, d] = socket_pair();
  const auto [e, f] = socket_pair();
  std::vector<Process> all;
  all.push_back(Process::start({"mesh", std::to_string(seed), receives}, {a, c}));
  all.push_back(Process::start({"mesh", std::to_string(seed + 10), receives}, {b, e}));
  all.push_back(Process::start({"mesh", std::to_string(seed + 20), receives}, {d, f}));
  for (const Process& each : all)
    if (each.control().hear() != 'r') give_up("not ready", Where::current());
  for (const Process& each : all) each.control().say('g');
  return all;
}

/// Kills one of three, this many times.
void kill_one(const char* receives, unsigned rounds) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  Random random{start};
  const SoftDirectory directory;
  for (unsigned round = 0; round < rounds * stress_factor(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<Process> all = start_mesh(random.next() >> 8, receives);
    const std::chrono::microseconds moment{random.up_to(3000)};
    std::this_thread::sleep_for(moment);  // wait: the random moment at which the process dies
    const std::size_t victim = random.up_to(2);
    all[victim].kill();
    std::vector<Process> survivors;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i != victim) survivors.push_back(std::move(all[i]));
    for (std::size_t i = 0; i < 2; ++i)  // To each, the others are 0 and 1 in the order of ranks.
      survivors[i].control().say(victim > i ? static_cast<char>('0' + victim - 1)
                                            : static_cast<char>('0' + victim));
    for (const Process& each : survivors) ASSERT_EQ(each.control().hear(), 'o');
    for (const Process& each : survivors) each.control().say('q');
    for (Process& each : survivors) ASSERT_EQ(each.wait_for_end(), 0);
    ASSERT_TRUE(directory.is_gone()) << "the last one out leaves nothing";
  }
}

TEST(Killed, ProcessTakesNobodyWithIt) { kill_one("own", 100); }

TEST(Killed, ProcessWithSharedReceivesAndDatagramsTakesNobodyWithIt) { kill_one("shared", 50); }

TEST(Killed, EverythingIsReclaimedByTheNextStart) {
  const SoftDirectory directory;
  for (int round = 0; round < 3; ++round) {
    std::vector<Process> all = start_mesh(1);
    for (Process& each : all) each.kill();
    ASSERT_FALSE(directory.is_gone());
  }
  // A process that starts now takes over the lowest slot, and at its end removes everything else
  // that is dead.
  {
    const Context context = open_context();
  }
  EXPECT_TRUE(directory.is_gone());
}

}  // namespace
}  // namespace verbatim::test
