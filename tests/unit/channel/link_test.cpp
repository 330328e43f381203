// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the end of a peer is seen, however it ends, and is distinguished from a goodbye; a child of
//       ours does not hide our own end.
// Method: TCP connections on the loopback interface; processes that hold the other end.
// Covers: channel/link.cpp, channel/private_descriptor.cpp
#include "channel/link.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string_view>
#include <thread>
#include <utility>

#include "channel/tcp.hpp"
#include "support/require.hpp"

namespace verbatim::detail {
void PrintTo(LinkState state, std::ostream* out) { *out << to_string(state); }
}  // namespace verbatim::detail

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using detail::Link;
using detail::LinkState;
using detail::PrivateDescriptor;

constexpr auto kPatience = 30s;

/// Both ends of a TCP connection.
std::pair<PrivateDescriptor, PrivateDescriptor> connected() {
  const detail::BoundedCall call{.operation = "test", .deadline = Clock::now() + kPatience};
  const auto addresses = require(detail::resolve_local({.host = "127.0.0.1", .port = 0}, call));
  const auto server = require(detail::listen_on_any(addresses, 4, call));
  const auto at = require(detail::local_address(server.get(), "test"));
  auto client = require(detail::connect_to_any({{at}}, call));
  // A client that is connected may still be on its way to the listener.
  static_cast<void>(detail::wait_until_ready(server.get(), POLLIN, call.deadline));
  auto accepted = require(detail::try_accept(server.get(), "test"));
  if (!accepted) throw SetupFailed("accept");
  return {*std::move(accepted), std::move(client)};
}

/// Waits up to `limit` for a change of state and returns the new one. Only the descriptor tells
/// when.
LinkState next_state(Link& link, std::chrono::nanoseconds limit = kPatience) {
  const LinkState before = link.state();
  const auto deadline = Clock::now() + limit;
  while (link.look() == before)
    if (!detail::wait_until_ready(link.fd(), POLLIN, deadline)) break;
  return link.state();
}

void say(const PrivateDescriptor& end, std::string_view text) {
  ASSERT_EQ(::send(end.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

/// A process that runs `play` and ends; killed if it does not end.
class Process {
 public:
  template <class Play>
  explicit Process(Play play) : pid_(fork()) {
    if (pid_ == 0) {
      play();
      _exit(0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { kill(); }
  void kill() {
    if (const pid_t pid = std::exchange(pid_, 0); pid > 0) {
      ::kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  pid_t pid_;
};

/// Two ends of a pipe for messages between a process and its child.
struct Talk {
  int child = -1;
  int parent = -1;
  Talk() {
    int both[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) throw SetupFailed("socketpair");
    child = both[0];
    parent = both[1];
  }
  ~Talk() {
    ::close(child);
    ::close(parent);
  }
  static void say(int end, char word) { static_cast<void>(write(end, &word, 1)); }
  static char hear(int end) {
    char word = 0;
    return read(end, &word, 1) == 1 ? word : '\0';
  }
};

TEST(Link, IsOpenWhileThePeerIsThere) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  EXPECT_EQ(link.look(), LinkState::open);
  EXPECT_FALSE(detail::wait_until_ready(link.fd(), POLLIN, Clock::now()));
  EXPECT_EQ(Link{}.look(), LinkState::none);
  EXPECT_EQ(Link{}.fd(), -1);
}

TEST(Link, PeerThatSaysDoneIsLeavingAndThenFinished) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  Link peer{std::move(theirs)};
  EXPECT_TRUE(peer.say_done());
  EXPECT_TRUE(peer.say_done());  // Says nothing more.
  EXPECT_EQ(next_state(link), LinkState::leaving);
  // The peer is still there, so there is nothing to see until it goes.
  EXPECT_FALSE(detail::wait_until_ready(link.fd(), POLLIN, Clock::now()));
  EXPECT_TRUE(link.say_done());
  EXPECT_EQ(next_state(peer), LinkState::leaving);
  peer = Link{};
  EXPECT_EQ(next_state(link), LinkState::finished);
  EXPECT_FALSE(link.cause());
}

TEST(Link, DoneAndTheEndAreSeenInOneLook) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  say(theirs, {"VBF1\x03\0\0\0", 8});
  theirs.reset();
  ASSERT_TRUE(detail::wait_until_ready(link.fd(), POLLRDHUP, Clock::now() + kPatience));
  EXPECT_EQ(link.look(), LinkState::finished);
}

TEST(Link, SaysDoneToAPeerThatIsGoneWithoutASignal) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  theirs.reset();
  ASSERT_EQ(next_state(link), LinkState::lost);
  static_cast<void>(link.say_done());  // It may still be taken, once.
  EXPECT_FALSE(Link{}.say_done());
  EXPECT_LE(sizeof(Link), 192u);  // One per channel.
}

TEST(Link, EndWithoutAWordIsLost) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  theirs.reset();
  EXPECT_EQ(next_state(link), LinkState::lost);
  ASSERT_TRUE(link.cause());
  EXPECT_EQ(*link.cause(), Errc::closed);
  EXPECT_EQ(link.cause()->os_error, 0);
  EXPECT_EQ(link.look(), LinkState::lost);  // For good.
}

TEST(Link, HalfAGoodbyeIsLost) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  say(theirs, {"VBF1\x03\0", 6});
  ASSERT_TRUE(detail::wait_until_ready(link.fd(), POLLIN, Clock::now() + kPatience));
  EXPECT_EQ(link.look(), LinkState::open);
  theirs.reset();
  EXPECT_EQ(next_state(link), LinkState::lost);
}

TEST(Link, PeerThatTalksSomethingElseIsLost) {
  for (const std::string_view text :
       {std::string_view{"GET / HTTP/1.1"}, std::string_view{"VBF1\x02\0\0\0", 8},
        std::string_view{"VBF1\x03\0\x01\0x", 9}}) {
    auto [ours, theirs] = connected();
    Link link{std::move(ours)};
    say(theirs, text);
    EXPECT_EQ(next_state(link), LinkState::lost);
    ASSERT_TRUE(link.cause());
    EXPECT_EQ(*link.cause(), Errc::malformed);
  }
}

TEST(Link, ResetIsLostWithItsErrno) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(setsockopt(theirs.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  theirs.reset();
  EXPECT_EQ(next_state(link), LinkState::lost);
  EXPECT_EQ(link.cause()->os_error, ECONNRESET);
}

TEST(Link, PeerThatClosedItsHalfIsLost) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  ASSERT_EQ(shutdown(theirs.get(), SHUT_WR), 0);
  EXPECT_EQ(next_state(link), LinkState::lost);
}

TEST(Link, KillOfTheOtherProcessIsSeenBeforeItsSilence) {
  auto [ours, theirs] = connected();
  const int raw = theirs.release();  // The child keeps this one.
  Talk talk;
  Process peer{[&] {
    Talk::say(talk.child, 'r');
    Talk::hear(talk.child);  // For ever, until it is killed.
  }};
  ::close(raw);
  ASSERT_EQ(Talk::hear(talk.parent), 'r');
  Link link{std::move(ours)};
  EXPECT_EQ(link.look(), LinkState::open);
  const auto start = Clock::now();
  peer.kill();
  EXPECT_EQ(next_state(link), LinkState::lost);
  EXPECT_LT(Clock::now() - start, Link::kSilence);
  ASSERT_TRUE(link.cause());
  EXPECT_EQ(link.cause()->os_error, 0) << "the probes noticed it";
}

TEST(Link, ChildDoesNotHideOurEnd) {
  auto [ours, theirs] = connected();
  Link link{std::move(ours)};
  Link peer{std::move(theirs)};
  Talk talk;
  const Process child{[&] {
    const bool none = link.look() == LinkState::none && peer.fd() == -1 && !link.say_done();
    Talk::say(talk.child, none ? 'y' : 'n');
    Talk::hear(talk.child);
  }};
  ASSERT_EQ(Talk::hear(talk.parent), 'y');
  EXPECT_EQ(link.look(), LinkState::open);  // The child closing its copy means nothing.
  peer = Link{};
  EXPECT_EQ(next_state(link), LinkState::lost);
}

TEST(Link, ExecutedProgramDoesNotHideOurEnd) {
  auto [ours, theirs] = connected();
  EXPECT_TRUE(fcntl(ours.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_TRUE(fcntl(theirs.get(), F_GETFD) & FD_CLOEXEC);
}

TEST(Link, NoticesAVanishedHost) {
  auto [ours, theirs] = connected();
  const Link link{std::move(ours)};
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(link.fd(), level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 10'000);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
            10);
}

TEST(Link, PeerThatForgotTheConnectionIsLost) {
  auto [ours, theirs] = connected();
  // A socket under repair sends nothing when it is closed, as after a power cut.
  const int on = 1;
  if (setsockopt(theirs.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
    GTEST_SKIP() << "TCP_REPAIR is not permitted here";
  Link link{std::move(ours)};
  const auto probe_after = [&](int seconds) {
    ASSERT_EQ(setsockopt(link.fd(), IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds), 0);
  };
  probe_after(3600);  // Not before the first look.
  theirs.reset();
  EXPECT_EQ(link.look(), LinkState::open);  // Nothing arrived.
  // Link's own probes begin too late for a test.
  probe_after(1);
  EXPECT_EQ(next_state(link), LinkState::lost);
}

TEST(PrivateDescriptor, IsClosedInChildrenWhoeverForksAndWhenever) {
  std::vector<PrivateDescriptor> kept;
  std::jthread other([](const std::stop_token& stop) {
    while (!stop.stop_requested())
      const auto made =
          PrivateDescriptor::opened_by([] { return open("/dev/null", O_RDONLY | O_CLOEXEC); });
  });
  for (int i = 0; i < 20; ++i) {
    kept.push_back(
        PrivateDescriptor::opened_by([] { return open("/dev/null", O_RDONLY | O_CLOEXEC); }));
    ASSERT_TRUE(kept.back());
    const int number = kept.back().get();
    const pid_t child = fork();
    if (child == 0) {
      // The number cannot belong to another file, because the child opens nothing.
      const bool closed = fcntl(number, F_GETFD) == -1 && !kept.back();
      kept.clear();  // Closes nothing twice.
      _exit(closed ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_GE(fcntl(number, F_GETFD), 0);
  }
}

TEST(PrivateDescriptor, MovesAndIsGivenUp) {
  PrivateDescriptor first =
      PrivateDescriptor::opened_by([] { return open("/dev/null", O_RDONLY); });
  const int number = first.get();
  PrivateDescriptor second{std::move(first)};
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question.
  EXPECT_EQ(second.get(), number);
  PrivateDescriptor third;
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  const int raw = third.release();
  EXPECT_EQ(raw, number);
  EXPECT_FALSE(third);
  EXPECT_GE(fcntl(raw, F_GETFD), 0);
  PrivateDescriptor{raw}.reset();
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
  errno = 0;
  EXPECT_FALSE(PrivateDescriptor::opened_by([] { return open("/no/such/file", O_RDONLY); }));
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace verbatim::test
