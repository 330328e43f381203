// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that lives long holds no more after ten thousand clients than after ten.
// Method: servers that stay; eight clients at a time, each replaced when it leaves: half of them
//         are killed at a random moment, the others end by themselves. All data is checked. From
//         time to time there is no client at all, and the test counts what the servers hold; it
//         compares the early counts of the run with the last ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <list>
#include <thread>

#include "soak/footprint.hpp"
#include "soak/meeting.hpp"
#include "support/seed.hpp"
#include "survival/process.hpp"

namespace verbatim::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kServers = 3;
constexpr std::size_t kClients = 8;      // At a time.
constexpr std::uint64_t kLatestMs = 80;  // The longest life of a client that is killed.
constexpr std::size_t kWarmUp = 2;       // Counts that are left out,
constexpr std::size_t kWindow = 3;       // and those of which the median is taken.
constexpr std::size_t kCounts = 12;      // Of a run, at least.

std::chrono::seconds duration() {
  const char* const given = std::getenv("VERBATIM_SOAK_S");
  return std::chrono::seconds{given != nullptr ? std::strtoul(given, nullptr, 10) : 20};
}

/// A client that is here, and the time at which to kill it, if any.
struct Client {
  Process process;
  std::optional<Clock::time_point> end;
  Clock::time_point started = Clock::now();
};

class Soak {
 public:
  explicit Soak(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < kServers; ++i) {
      names_.push_back("verbatim-soak-" + std::to_string(getpid()) + "-" + std::to_string(i));
      servers_.push_back(Process::start({"server", names_[i], i % 2 == 0 ? "buffer" : "plain"}));
    }
    for (const Process& server : servers_)
      if (server.control().hear() != 'r') give_up("a server is not ready", Where::current());
  }

  /// Lets clients come and go until then; none is left at the end.
  void churn(Clock::time_point until) {
    std::list<Client> clients;
    while (Clock::now() < until || !clients.empty()) {
      while (Clock::now() < until && clients.size() < kClients) clients.push_back(next_client());
      std::erase_if(clients, [&](Client& each) { return has_ended(each); });
      for (Process& server : servers_)
        if (const auto status = server.poll_end())
          give_up("a server ended with " + std::to_string(*status), Where::current());
      std::this_thread::sleep_for(milliseconds{1});  // wait: the clients need the processor
    }
  }

  /// Counts what is held while there is no client.
  std::vector<Figure> count(const SoftDirectory& directory) {
    for (const Process& server : servers_) {
      server.control().say('m');
      if (server.control().hear(kPatience) != 'i') give_up("not idle", Where::current());
    }
    // A process that starts and ends removes what the killed ones left.
    Process last = Process::start({"client", "0"});
    if (last.wait_for_end() != 0) give_up("a client failed", Where::current());
    std::vector<Figure> all = footprint_of(directory.path());
    for (std::size_t i = 0; i < kServers; ++i)
      for (Figure& each : footprint_of(servers_[i].pid(), "server " + std::to_string(i) + ":"))
        all.push_back(std::move(each));
    return all;
  }

  void end() {
    for (const Process& server : servers_) server.control().say('q');
    for (Process& server : servers_) EXPECT_EQ(server.wait_for_end(), 0);
  }

  [[nodiscard]] std::size_t clients() const noexcept { return clients_; }
  [[nodiscard]] std::size_t killed() const noexcept { return killed_; }

 private:
  Client next_client() {
    ++clients_;
    std::vector<std::string> words{"client", std::to_string(random_.next())};
    const std::size_t first = random_.up_to(kServers - 1);
    const std::size_t visited = random_.up_to(3) == 0 ? 2 : 1;
    for (std::size_t i = 0; i < visited; ++i) words.push_back(names_[(first + i) % kServers]);
    const bool is_victim = random_.up_to(1) == 0;
    const milliseconds life{random_.up_to(kLatestMs)};
    Client client{Process::start(std::move(words)), {}};
    if (is_victim) client.end = client.started + life;
    return client;
  }

  bool has_ended(Client& client) {
    if (const auto status = client.process.poll_end()) {
      if (*status != 0) give_up("a client failed", Where::current());
      return true;
    }
    if (client.end && Clock::now() >= *client.end) {
      client.process.kill();
      ++killed_;
      return true;
    }
    if (Clock::now() - client.started > 2 * kPatience)
      give_up("a client does not come to its end", Where::current());
    return false;
  }

  Random random_;
  std::vector<std::string> names_;
  std::vector<Process> servers_;
  std::size_t clients_ = 0;
  std::size_t killed_ = 0;
};

using Counts = std::vector<std::vector<Figure>>;

std::size_t median(const Counts& counts, std::size_t from, std::size_t figure) {
  std::vector<std::size_t> values;
  for (std::size_t i = from; i < from + kWindow; ++i) values.push_back(counts[i][figure].value);
  std::ranges::sort(values);
  return values[kWindow / 2];
}

void expect_flat(const Counts& counts) {
  for (std::size_t i = 0; i < counts[0].size(); ++i) {
    const std::size_t early = median(counts, kWarmUp, i);
    const std::size_t late = median(counts, counts.size() - kWindow, i);
    const Figure& figure = counts[kWarmUp][i];
    std::cout << "soak: " << figure.name << ": " << early << ", at the end " << late << '\n';
    EXPECT_LE(late, early + figure.slack) << figure.name << " grow with the number of clients";
  }
}

TEST(Soak, ServersHoldNoMoreAfterManyClientsThanAfterFew) {
  const std::uint64_t start = seed();
  const auto length = duration();
  SCOPED_TRACE(replay(start));
  std::cout << "soak: " << length.count() << " s, " << replay(start)
            << " (VERBATIM_SOAK_S=" << length.count() << ")" << std::endl;
  const SoftDirectory directory;
  {
    Soak soak{start};
    Counts counts;
    const auto begin = Clock::now();
    for (std::size_t i = 1; i <= kCounts; ++i) {
      soak.churn(begin + length * i / kCounts);
      counts.push_back(soak.count(directory));
    }
    std::cout << "soak: " << soak.clients() << " clients, of which " << soak.killed()
              << " were killed\n";
    expect_flat(counts);
    soak.end();
  }
  EXPECT_TRUE(directory.is_gone()) << "the last one out leaves nothing";
}

}  // namespace
}  // namespace verbatim::test
