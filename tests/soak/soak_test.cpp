// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that lives long holds no more after ten thousand clients than after ten.
// Method: servers that stay; eight clients at a time, each replaced when it leaves: half of them
//         are killed at a random moment, of their start or of their traffic, the others end by
//         themselves. All data is checked. From time to time there is no client at all. Early in
//         the run and at its end, the test then counts what the servers hold, and compares.
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
constexpr std::size_t kClients = 8;  // At a time.
// When a client is killed, at the latest: this long after its start, or after its first messages.
constexpr std::chrono::microseconds kLongestLife{80'000};
constexpr std::chrono::microseconds kLongestTraffic{10'000};
constexpr std::size_t kPauses = 12;  // In which there is no client.
constexpr std::size_t kWarmUp = 2;   // Pauses without a count,
constexpr std::size_t kWindow = 3;   // and counts of which the median is taken.
// The device looks for what to release every half second.
constexpr milliseconds kCalm{700};
constexpr std::chrono::seconds kLongestUnrest{5};
// Late in the run. What is released late, because the machine stood still, has not grown.
constexpr std::chrono::seconds kLongestExcess{20};
// In a second, at least. An idle machine does more than twenty times as much; a slow one gets more
// time.
constexpr double kFewestClients = 10;
constexpr double kFewestKilled = 2;
constexpr double kFewestKilledInTraffic = 1;

std::chrono::seconds duration() {
  const char* const given = std::getenv("VERBATIM_SOAK_S");
  return std::chrono::seconds{given != nullptr ? std::strtoul(given, nullptr, 10) : 20};
}

/// A client that is here, and when to kill it, if ever.
struct Client {
  Process process;
  std::optional<std::chrono::microseconds> traffic;  // After its first messages.
  std::optional<Clock::time_point> end;
  bool has_traffic = false;
  Clock::time_point started = Clock::now();
};

using Figures = std::vector<Figure>;

std::size_t median(const std::vector<Figures>& counts, std::size_t figure) {
  std::vector<std::size_t> values;
  for (const Figures& each : counts) values.push_back(each[figure].value);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Whether a figure is larger than it may be after these counts.
bool exceed(const Figures& now, const std::vector<Figures>& early) {
  for (std::size_t i = 0; !early.empty() && i < now.size(); ++i)
    if (now[i].value > median(early, i) + early[0][i].slack) return true;
  return false;
}

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

  /// Lets clients come and go until then, and until there were as many as there should be after
  /// this time; none is left at the end.
  void churn(Clock::time_point until, std::chrono::duration<double> after) {
    const auto goes_on = [&] {
      const auto now = Clock::now();
      return now < until || (now < until + kPatience && !has_enough(after.count()));
    };
    std::list<Client> clients;
    while (!clients.empty() || goes_on()) {
      while (clients.size() < kClients && goes_on()) clients.push_back(next_client());
      std::erase_if(clients, [&](Client& each) { return has_ended(each); });
      for (Process& server : servers_)
        if (const auto status = server.poll_end())
          give_up("a server ended with " + std::to_string(*status), Where::current());
      std::this_thread::sleep_for(milliseconds{1});  // wait: the clients need the processor
    }
  }

  /// Counts what is held while there is no client, when it has come to rest, if possible with no
  /// more than at these earlier counts.
  Figures count(const SoftDirectory& directory, const std::vector<Figures>& early = {}) {
    for (const Process& server : servers_) {
      server.control().say('m');
      if (server.control().hear(kPatience) != 'i') give_up("not idle", Where::current());
    }
    // A process that starts and ends removes what the killed ones left.
    Process last = Process::start({"client", "0"});
    if (last.wait_for_end() != 0) give_up("a client failed", Where::current());
    Figures all = look(directory);
    auto since = Clock::now();
    const auto begin = since;
    while (Clock::now() < std::min(since + kCalm, begin + kLongestUnrest) ||
           (exceed(all, early) && Clock::now() < begin + kLongestExcess)) {
      std::this_thread::sleep_for(milliseconds{50});  // wait: between two looks
      Figures now = look(directory);
      if (now == all) continue;
      all = std::move(now);
      since = Clock::now();
    }
    all.push_back(shared_.new_entries());
    return all;
  }

  void end() {
    for (const Process& server : servers_) server.control().say('q');
    for (Process& server : servers_) EXPECT_EQ(server.wait_for_end(), 0);
  }

  [[nodiscard]] bool has_enough(double seconds) const noexcept {
    return static_cast<double>(clients_) >= kFewestClients * seconds &&
           static_cast<double>(killed_) >= kFewestKilled * seconds &&
           static_cast<double>(killed_in_traffic_) >= kFewestKilledInTraffic * seconds;
  }
  [[nodiscard]] std::size_t clients() const noexcept { return clients_; }
  [[nodiscard]] std::size_t killed() const noexcept { return killed_; }
  [[nodiscard]] std::size_t killed_in_traffic() const noexcept { return killed_in_traffic_; }

 private:
  [[nodiscard]] Figures look(const SoftDirectory& directory) const {
    Figures all = footprint_of(directory.path());
    for (std::size_t i = 0; i < kServers; ++i)
      for (Figure& each : footprint_of(servers_[i].pid(), "server " + std::to_string(i) + ":"))
        all.push_back(std::move(each));
    return all;
  }

  Client next_client() {
    ++clients_;
    std::vector<std::string> words{"client", std::to_string(random_.next())};
    const std::size_t first = random_.up_to(kServers - 1);
    const std::size_t visited = random_.up_to(3) == 0 ? 2 : 1;
    for (std::size_t i = 0; i < visited; ++i) words.push_back(names_[(first + i) % kServers]);
    const auto at_most = [&](std::chrono::microseconds most) {
      return std::chrono::microseconds{random_.up_to(static_cast<std::uint64_t>(most.count()))};
    };
    const bool is_victim = random_.up_to(1) == 0;
    const bool in_traffic = random_.up_to(1) == 0;
    Client client{Process::start(std::move(words)), {}, {}};
    if (is_victim && in_traffic) client.traffic = at_most(kLongestTraffic);
    if (is_victim && !in_traffic) client.end = client.started + at_most(kLongestLife);
    return client;
  }

  bool has_ended(Client& client) {
    if (const auto status = client.process.poll_end()) {
      if (*status != 0) give_up("a client failed", Where::current());
      return true;
    }
    if (!client.has_traffic && client.process.control().overhear() == 'h') {
      client.has_traffic = true;
      if (client.traffic) client.end = Clock::now() + *client.traffic;
    }
    if (client.end && Clock::now() >= *client.end) {
      client.process.kill();
      ++killed_;
      if (client.has_traffic) ++killed_in_traffic_;
      return true;
    }
    if (Clock::now() - client.started > 2 * kPatience)
      give_up("a client does not come to its end", Where::current());
    return false;
  }

  Random random_;
  const SharedMemory shared_;
  std::vector<std::string> names_;
  std::vector<Process> servers_;
  std::size_t clients_ = 0;
  std::size_t killed_ = 0;
  std::size_t killed_in_traffic_ = 0;
};

void expect_flat(const std::vector<Figures>& first, const std::vector<Figures>& last) {
  for (std::size_t i = 0; i < first[0].size(); ++i) {
    const std::size_t early = median(first, i);
    const std::size_t late = median(last, i);
    const Figure& figure = first[0][i];
    std::cout << "soak: " << figure.name << ": " << early << ", at the end " << late << '\n';
    EXPECT_GE(std::min(early, late), figure.least) << figure.name << " could not be counted";
    EXPECT_LE(late, early + figure.slack) << figure.name << " grow with the number of clients";
  }
}

void expect_traffic(const Soak& soak, double seconds) {
  std::cout << "soak: " << soak.clients() << " clients, of which " << soak.killed()
            << " were killed, " << soak.killed_in_traffic() << " of them in traffic\n";
  EXPECT_GE(static_cast<double>(soak.clients()), kFewestClients * seconds);
  EXPECT_GE(static_cast<double>(soak.killed()), kFewestKilled * seconds);
  EXPECT_GE(static_cast<double>(soak.killed_in_traffic()), kFewestKilledInTraffic * seconds);
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
    std::vector<Figures> early;
    std::vector<Figures> late;
    for (std::size_t pause = 0; pause < kPauses; ++pause) {
      soak.churn(Clock::now() + milliseconds{length} / kPauses,
                 milliseconds{length} * (pause + 1) / kPauses);
      if (pause >= kWarmUp && pause < kWarmUp + kWindow) early.push_back(soak.count(directory));
      if (pause >= kPauses - kWindow) late.push_back(soak.count(directory, early));
    }
    expect_traffic(soak, static_cast<double>(length.count()));
    expect_flat(early, late);
    soak.end();
  }
  EXPECT_TRUE(directory.is_gone()) << "the last one out leaves nothing";
}

}  // namespace
}  // namespace verbatim::test
