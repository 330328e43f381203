// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the servers of examples/ serve hundreds of clients of another process, and do not run out
//       of buffers when clients come and go.
// Method: each server is a process. All clients are in this process, on one reactor. They send
//         messages of random length, several rounds each at the same time, and check what comes
//         back. Then they go without a goodbye, and others come: more than the server has buffers
//         for.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "support/pattern.hpp"
#include "support/require.hpp"
#include "support/seed.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 4096;  // Of a message.

/// Where a server of this process listens; no other process uses the same address.
std::string address_of(const std::string& name) {
  return "unix:@verbatim-" + name + "-" + std::to_string(getpid());
}

/// A program of examples/. It is killed with this object, or with this process.
class Server {
 public:
  explicit Server(const std::string& name, const std::vector<std::string>& words) {
    std::vector<std::string> command{VERBATIM_SERVERS "/" + name};
    command.insert(command.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] bool is_running() const {
    return pid_ > 0 && waitid(P_PID, static_cast<id_t>(pid_), &ended_, kLook) == 0 &&
           ended_.si_pid == 0;
  }

 private:
  static constexpr int kLook = WEXITED | WNOHANG | WNOWAIT;
  pid_t pid_ = -1;
  mutable siginfo_t ended_{};
};

/// What the clients of one server did, together.
struct Tally {
  std::size_t echoes = 0;
  std::size_t bytes = 0;
  Error failure{.code = Errc::closed, .operation = "none"};
};

Task<void> ask(Channel& channel, Pool& pool, std::uint64_t of, std::size_t rounds,
               Clock::time_point end, Tally& tally) {
  Random random{of};
  Buffer out = pool.try_take();
  Buffer in = pool.try_take();
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::size_t length = 1 + random.up_to(kMostBytes - 1);
    const std::uint64_t content = random.next();
    fill(out.bytes().first(length), content);
    auto receiving = channel.receive(std::move(in));
    auto sent = co_await wait_until(channel.send(std::move(out), {.length = length}), end);
    auto got = co_await wait_until(std::move(receiving), end);
    if (!sent.result || !got.result) {
      tally.failure = sent.result ? got.result.error() : sent.result.error();
      co_return;
    }
    if (got.received().size() != length || !holds(got.received(), content)) {
      tally.failure = {.code = Errc::malformed, .operation = "echo", .value = length};
      co_return;
    }
    ++tally.echoes;
    tally.bytes += length;
    out = std::move(sent.buffer);
    in = std::move(got.buffer);
  }
}

class Servers : public testing::Test {
 protected:
  /// This many clients come and talk at the same time. They are gone when it returns.
  void visit(const char* name, const std::string& address, std::size_t clients,
             std::size_t rounds) {
    auto reactor = require(Reactor::create(domain));
    auto pool = require(Pool::create(
        domain, {.bytes = kMostBytes, .count = static_cast<std::uint32_t>(2 * clients)}));
    const DialOptions options{.deadline = 60s,
                              .channel = {.on = reactor, .max_sends = 1, .max_receives = 1}};
    const auto begin = Clock::now();
    std::vector<Channel> channels;
    for (std::size_t i = 0; i < clients; ++i)
      channels.push_back(require(dial(domain, address, options)).channel);
    const auto met = Clock::now();
    Tally tally;
    for (Channel& channel : channels)
      reactor.spawn(ask(channel, pool, next_seed++, rounds, met + 60s, tally));
    reactor.run();
    const auto over = Clock::now();
    EXPECT_EQ(tally.echoes, clients * rounds) << to_string(tally.failure);
    const auto ms = [](Clock::duration time) {
      return static_cast<long long>(
          std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
    };
    std::printf("served: %s, %zu clients: %zu echoes, %zu bytes right; %lld ms to meet, %lld ms\n",
                name, clients, tally.echoes, tally.bytes, ms(met - begin), ms(over - met));
    std::fflush(stdout);
  }
  /// Emulated devices are slow, and a few clients test them just as well.
  [[nodiscard]] std::size_t crowd() const { return context.name() == "soft0" ? 512 : 32; }

  std::uint64_t next_seed = seed();
  testing::ScopedTrace trace{__FILE__, __LINE__, replay(next_seed)};
  Context context = require(open_device());
  ProtectionDomain domain = require(context.allocate_domain());
};

TEST_F(Servers, EchoWithCoroutines) {
  const std::string address = address_of("echo_server");
  const Server server{"echo_server", {address}};
  visit("echo_server", address, crowd(), 16);
  visit("echo_server", address, crowd(), 2);
  visit("echo_server", address, crowd(), 2);  // More in all than there are buffers.
  EXPECT_TRUE(server.is_running());
}

TEST_F(Servers, EchoWithEpoll) {
  const std::string address = address_of("echo_epoll");
  const Server server{"echo_epoll", {address}};
  visit("echo_epoll", address, crowd(), 16);
  visit("echo_epoll", address, crowd(), 2);
  visit("echo_epoll", address, crowd(), 2);
  EXPECT_TRUE(server.is_running());
}

TEST_F(Servers, EchoWithAsio) {
  const std::string address = address_of("echo_asio");
  const Server server{"echo_asio", {address}};
  visit("echo_asio", address, crowd(), 16);
  visit("echo_asio", address, crowd(), 2);
  visit("echo_asio", address, crowd(), 2);
  EXPECT_TRUE(server.is_running());
}

TEST_F(Servers, ProxyInFrontOfAnEcho) {
  const std::string address = address_of("proxy");
  const std::string behind = address_of("behind_proxy");
  const Server server{"echo_server", {behind}};
  const Server proxy{"proxy", {address, behind}};
  visit("proxy", address, crowd() / 4, 16);
  visit("proxy", address, crowd() / 4, 2);
  EXPECT_TRUE(proxy.is_running() && server.is_running());
}

}  // namespace
}  // namespace verbatim::test
