// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks in separate processes: killed, stopped, forked.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>

#include "network/session_raw_client.hpp"
#include "network/session_world.hpp"
#include "support/forked_child.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

/// After this time a child ends, whatever happens.
constexpr unsigned kAlarmSeconds = 240;

/// For tests in which silence is a loss: longer than a machine withholds the processor from a
/// thread that lives.
constexpr Timeout kDetect = 3s;

/// A process that gets the address of the coordinator, and then runs as a rank. Forked before this
/// process has threads.
class RankProcess {
 public:
  explicit RankProcess(const std::function<void(const std::string&)>& body) {
    if (pipe(pipe_) != 0) give_up("pipe", std::source_location::current());
    pid_ = fork();
    if (pid_ != 0) {
      close(pipe_[0]);
      return;
    }
    close(pipe_[1]);
    alarm(kAlarmSeconds);
    std::array<char, 64> address{};
    if (read(pipe_[0], address.data(), address.size() - 1) <= 0) std::_Exit(3);
    try {
      body(address.data());
    } catch (const std::exception& failed) {
      std::fprintf(stderr, "child: %s\n", failed.what());
      std::_Exit(2);
    }
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    close(pipe_[1]);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void tell(const std::string& address) const {
    EXPECT_EQ(write(pipe_[1], address.c_str(), address.size()), ssize_t(address.size()));
  }
  void send_signal(int number) const { kill(pid_, number); }
  /// Its exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  int pipe_[2]{};
  pid_t pid_ = -1;
};

Identity at(const std::string& address, Rank rank, Rank world) {
  return {.rank = rank, .world = world, .coordinator = address};
}

TEST(RankProcess, ThatIsKilledIsLostAtOnce) {
  RankProcess victim{[](const std::string& address) {
    auto session = require(Exchanger::join(at(address, 1, 3), {.timeout = kPatience}));
    require(session.meet(kPatience));
    pause();
  }};
  RankProcess survivor{[](const std::string& address) {
    auto session = require(Exchanger::join(at(address, 2, 3), {.timeout = kPatience}));
    require(session.meet(kPatience));
    EXPECT_TRUE(fails_naming(session.meet(kPatience), Errc::peer_lost, "rank", {.value = 1}));
    EXPECT_TRUE(succeeds(session.leave(kPatience)));
  }};
  const auto coordinator = require(Coordinator::open({.world = 3, .detect = kPatience}));
  victim.tell(coordinator.address());
  survivor.tell(coordinator.address());
  auto session = require(Exchanger::join(at(coordinator.address(), 0, 3), {.timeout = kPatience}));
  require(session.meet(kPatience));
  victim.send_signal(SIGKILL);
  EXPECT_EQ(require(session.verdict(kPatience)), (Departure{1, Departed::connection_ended}));
  EXPECT_TRUE(succeeds(session.leave(kPatience)));
  EXPECT_EQ(survivor.wait(), 0);
}

TEST(RankProcess, ThatIsStoppedIsLostAndLearnsItWhenItWakes) {
  RankProcess stopped{[](const std::string& address) {
    auto session = require(Exchanger::join(at(address, 1, 2), {.timeout = kPatience}));
    require(session.meet(kPatience));
    EXPECT_TRUE(fails_naming(session.meet(kPatience), Errc::peer_lost, "rank", {.value = 1}));
    EXPECT_TRUE(
        fails_naming(session.exchange(bytes_of("x")), Errc::peer_lost, "rank", {.value = 1}));
    EXPECT_TRUE(fails_naming(session.regroup(kPatience), Errc::peer_lost, "rank", {.value = 1}));
    EXPECT_EQ(require(session.verdict(kPatience)), (Departure{1, Departed::dropped}));
  }};
  const auto coordinator = require(Coordinator::open({.world = 2, .detect = kDetect}));
  stopped.tell(coordinator.address());
  auto session = require(Exchanger::join(at(coordinator.address(), 0, 2), {.timeout = kPatience}));
  require(session.meet(kPatience));
  stopped.send_signal(SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(require(session.verdict(kPatience)), (Departure{1, Departed::silent}));
  EXPECT_GE(std::chrono::steady_clock::now() - start, kDetect / 4) << "it was heard before";
  EXPECT_TRUE(succeeds(session.regroup(kPatience)));  // The others continue.
  stopped.send_signal(SIGCONT);
  EXPECT_EQ(stopped.wait(), 0);
  EXPECT_EQ(session.departures().size(), 0u) << "it does not count in this generation";
  EXPECT_TRUE(succeeds(session.leave(kPatience)));
}

TEST(RankProcess, ThatIsStoppedForAMomentIsNotLost) {
  RankProcess stopped{[](const std::string& address) {
    auto session = require(Exchanger::join(at(address, 1, 2), {.timeout = kPatience}));
    require(session.meet(kPatience));
    EXPECT_TRUE(succeeds(session.meet(kPatience)));
    EXPECT_TRUE(succeeds(session.leave(kPatience)));
  }};
  const auto coordinator = require(Coordinator::open({.world = 2, .detect = kPatience}));
  stopped.tell(coordinator.address());
  auto session = require(Exchanger::join(at(coordinator.address(), 0, 2), {.timeout = kPatience}));
  require(session.meet(kPatience));
  stopped.send_signal(SIGSTOP);
  EXPECT_TRUE(fails_with(session.verdict(300ms), Errc::timed_out));
  stopped.send_signal(SIGCONT);
  EXPECT_TRUE(succeeds(session.meet(kPatience)));
  EXPECT_TRUE(succeeds(session.leave(kPatience)));
  EXPECT_EQ(stopped.wait(), 0);
}

/// The process of the coordinator, which sends us its address.
class CoordinatorProcess {
 public:
  explicit CoordinatorProcess(const CoordinatorOptions& options, rlim_t descriptors = 256) {
    int ends[2];
    if (pipe(ends) != 0) give_up("pipe", std::source_location::current());
    pid_ = fork();
    if (pid_ == 0) {
      alarm(kAlarmSeconds);
      const rlimit limit{descriptors, descriptors};
      setrlimit(RLIMIT_NOFILE, &limit);
      auto coordinator = Coordinator::open(options);
      if (!coordinator) std::_Exit(1);
      const std::string& own = coordinator->address();
      if (write(ends[1], own.c_str(), own.size()) < 0) std::_Exit(1);
      for (;;) pause();
    }
    close(ends[1]);
    std::array<char, 64> text{};
    if (read(ends[0], text.data(), text.size() - 1) <= 0)
      give_up("no coordinator", std::source_location::current());
    close(ends[0]);
    address = text.data();
  }
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;
  ~CoordinatorProcess() {
    send_signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void send_signal(int number) const { kill(pid_, number); }
  std::string address;

 private:
  pid_t pid_ = -1;
};

TEST(CoordinatorProcess, ThatIsKilledEndsEveryCall) {
  const CoordinatorProcess coordinator{{.world = 2}};
  std::vector<std::optional<Exchanger>> sessions(2);
  at_once(2, [&](Rank rank) {
    sessions[rank] =
        require(Exchanger::join(at(coordinator.address, rank, 2), {.timeout = kPatience}));
  });
  std::jthread waiting{[&] {
    EXPECT_TRUE(fails_naming(sessions[1]->meet(kPatience), Errc::peer_lost, "coordinator"));
  }};
  coordinator.send_signal(SIGKILL);
  EXPECT_TRUE(fails_naming(sessions[0]->exchange(bytes_of("x"), kPatience), Errc::peer_lost,
                           "coordinator"));
  EXPECT_EQ(sessions[0]->departures(), (std::vector<Departure>{{kNoRank, Departed::coordinator}}));
}

TEST(CoordinatorProcess, WithoutDescriptorsDropsStrangersFirst) {
  const CoordinatorProcess coordinator{{.world = 1}, 32};
  std::vector<RawClient> strangers;
  const auto port = require(detail::parse_host_port(coordinator.address, "test")).port;
  for (int i = 0; i < 60; ++i) strangers.emplace_back(port);
  auto session = require(Exchanger::join(at(coordinator.address, 0, 1), {.timeout = kPatience}));
  EXPECT_TRUE(strangers.front().until_end()) << "the oldest had to go";
  EXPECT_TRUE(succeeds(session.leave(kPatience)));
}

TEST(CoordinatorProcess, ThatIsSilentIsGone) {
  const CoordinatorProcess coordinator{{.world = 1}};
  auto session = require(
      Exchanger::join(at(coordinator.address, 0, 1), {.timeout = kPatience, .detect = kDetect}));
  require(session.meet(kPatience));
  coordinator.send_signal(SIGSTOP);
  EXPECT_EQ(require(session.verdict(kPatience)), (Departure{kNoRank, Departed::coordinator}));
  EXPECT_TRUE(fails_naming(session.meet(), Errc::peer_lost, "coordinator"));
}

TEST(CoordinatorProcess, ThatWasStoppedBlamesNobody) {
  const CoordinatorProcess coordinator{{.world = 2, .detect = kDetect}};
  std::vector<std::optional<Exchanger>> sessions(2);
  at_once(2, [&](Rank rank) {
    sessions[rank] = require(
        Exchanger::join(at(coordinator.address, rank, 2), {.timeout = kPatience, .detect = 60s}));
  });
  coordinator.send_signal(SIGSTOP);
  // It is stopped for longer than a rank may be silent.
  EXPECT_TRUE(fails_with(sessions[0]->meet(kDetect), Errc::timed_out)) << "and names nobody";
  coordinator.send_signal(SIGCONT);
  at_once(2, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank]->meet(kPatience))); });
  at_once(2, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank]->leave(kPatience))); });
}

TEST(RankProcess, LeavesItsSessionBehindWhenItForks) {
  const World world{2};
  auto sessions = world.join_all();
  in_forked_child([&] {
    EXPECT_TRUE(fails_with(sessions[0].meet(), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].exchange(bytes_of("x")), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].offer({}, {}), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].verdict(1s), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].report({}), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].ask(1, 1s), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].regroup(1s), Errc::forked));
    EXPECT_TRUE(fails_with(sessions[0].leave(1s), Errc::forked));
    EXPECT_EQ(sessions[0].departures().size(), 0u);
    EXPECT_EQ(sessions[0].fd(), -1);
    // Destroying it in the child has no effect on the others.
    sessions.clear();
    const_cast<World&>(world).coordinator.reset();
  });
  at_once(2, [&](Rank rank) {
    EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience)));
    EXPECT_TRUE(sessions[rank].departures().empty());
  });
  // A child that lives on does not keep a session alive.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    char byte = 0;
    std::_Exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  {
    const Exchanger gone = std::move(sessions[1]);
  }
  EXPECT_EQ(require(sessions[0].verdict(kPatience)), (Departure{1, Departed::connection_ended}));
  close(ends[0]);
  close(ends[1]);
  waitpid(child, nullptr, 0);
}

/// The masks of blocked signals, of all threads but the first.
std::vector<std::uint64_t> signals_blocked_in_other_threads() {
  std::vector<std::uint64_t> masks;
  for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"}) {
    if (task.path().filename() == std::to_string(getpid())) continue;
    std::ifstream status{task.path() / "status"};
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:")) masks.push_back(std::stoull(line.substr(8), nullptr, 16));
  }
  return masks;
}

bool blocks_all(std::uint64_t mask) {
  return std::ranges::all_of(
      std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM},
      [&](int number) { return (mask >> (number - 1) & 1) != 0; });
}

TEST(SessionThread, TakesNoSignals) {
  const World world{1};
  auto sessions = world.join_all();
  // A thread of ours that was joined may still be listed for a moment.
  auto blocked = signals_blocked_in_other_threads();
  for (const auto until = std::chrono::steady_clock::now() + kPatience;
       !std::ranges::all_of(blocked, blocks_all) && std::chrono::steady_clock::now() < until;
       blocked = signals_blocked_in_other_threads())
    std::this_thread::yield();
  for (const std::uint64_t each : blocked) EXPECT_TRUE(blocks_all(each)) << std::hex << each;
  EXPECT_GE(blocked.size(), 2u) << "the coordinator's and the session's";
  leave_all(sessions);
}

// At a random moment: before, during and after the calls.
TEST(RankProcess, MayDieAtAnyMoment) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  std::mt19937_64 random{seed};
  constexpr Rank kWorld = 4;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<RankProcess>> ranks;
    const Rank victim = static_cast<Rank>(random() % kWorld);
    for (Rank rank = 0; rank < kWorld; ++rank)
      ranks.push_back(std::make_unique<RankProcess>([=](const std::string& address) {
        auto session = Exchanger::join(at(address, rank, kWorld), {.timeout = kPatience});
        if (!session) {
          EXPECT_TRUE(fails_naming(session, Errc::peer_lost, "rank", {.value = victim}));
          return;
        }
        for (;;) {
          const auto all = session->exchange(bytes_of(std::to_string(rank)), kPatience);
          if (all) continue;
          EXPECT_TRUE(fails_naming(all, Errc::peer_lost, "rank", {.value = victim}));
          EXPECT_TRUE(succeeds(session->regroup(kPatience)));
          EXPECT_TRUE(succeeds(session->meet(kPatience)));
          EXPECT_TRUE(succeeds(session->leave(kPatience)));
          return;
        }
      }));
    auto coordinator = require(Coordinator::open({.world = kWorld, .detect = kPatience}));
    for (const auto& each : ranks) each->tell(coordinator.address());
    const auto moment = static_cast<useconds_t>(random() % 30000);
    usleep(moment);  // wait: for a random moment, which is the point of this test
    ranks[victim]->send_signal(SIGKILL);
    EXPECT_EQ(ranks[victim]->wait(), -SIGKILL);
    coordinator.rank_ended(victim);  // As a launcher does. It may not have come at all.
    for (Rank rank = 0; rank < kWorld; ++rank)
      if (rank != victim) {
        EXPECT_EQ(ranks[rank]->wait(), 0) << "rank " << rank << " victim " << victim;
      }
  }
}

}  // namespace
}  // namespace verbatim::test
