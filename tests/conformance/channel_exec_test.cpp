// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a program started by one with open channels, listeners and busy threads inherits none of
//       them, and neither the parent nor its peers notice when it starts and ends.
// Method: fork and exec of a shell that lists its own descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "conformance/meeting_fixture.hpp"
#include "support/forked_child.hpp"

namespace verbatim::test {
namespace {

std::set<std::string> open_descriptors() {
  std::set<std::string> all;
  for (const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"})
    all.insert(each.path().filename());
  return all;
}

/// The descriptors that this program inherited from its own parent.
const std::set<std::string> kInherited = open_descriptors();

class ChannelExec : public MeetingTest {
 protected:
  /// Forks and executes a shell, which exits with the number of a descriptor that it has besides
  /// those, or 0.
  [[nodiscard]] static int descriptor_after_exec() {
    std::string allowed = " 0 1 2 ";
    for (const std::string& each : kInherited) allowed += each + " ";
    // The shell opens no descriptor for a list that it has already expanded.
    const std::string script = "for fd in /proc/$$/fd/*; do n=${fd##*/}; case '" + allowed +
                               "' in *\" $n \"*) ;; *) [ -e $fd ] && exit $n ;; esac; done; exit 0";
    const int status = status_of_child([&] {
      execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      std::_Exit(127);
    });
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(ChannelExec, DescriptorWithoutTheFlagWouldBeSeen) {
  const int leak = open("/dev/null", O_RDONLY);  // NOLINT: without O_CLOEXEC, on purpose
  ASSERT_GE(leak, 0);
  EXPECT_EQ(descriptor_after_exec(), leak);
  ::close(leak);
}

TEST_F(ChannelExec, ProgramThatIsStartedHasNothingOfTheLibrarys) {
  const auto listener = require(Listener::open(domain, "127.0.0.1:0"));
  auto [here, there] = meet_at(listener);
  Channel& left = here.channel;
  Channel& right = there.channel;
  EXPECT_TRUE(succeeds(left.fd()));  // Creates all descriptors.
  EXPECT_TRUE(succeeds(right.fd()));
  auto [one, two] = require(connect_pair(domain));
  auto waiting = right.receive(empty(64));
  std::atomic<bool> stop{false};
  std::thread traffic([&, &first = one, &second = two] {
    while (!stop.load()) exchange(first, second);
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(descriptor_after_exec(), 0);
  // A child that ends before exec, or without it, does not end our connection.
  for (int i = 0; i < 10; ++i) in_forked_child([] {});
  stop = true;
  traffic.join();
  EXPECT_FALSE(waiting.ready());
  EXPECT_TRUE(succeeds(left.poll()));
  EXPECT_TRUE(succeeds(right.poll()));  // No end was reported.
  EXPECT_TRUE(succeeds(left.send(filled(64, seed)).wait().result));
  EXPECT_TRUE(succeeds(waiting.wait().result));
  exchange(right, left);
  expect_good_client(listener);
  auto parting = std::async(std::launch::async, [&] { return right.close(); });
  EXPECT_TRUE(succeeds(left.close()));
  EXPECT_TRUE(succeeds(parting.get()));
}

/// The child lives on after the parent has closed. It must not keep the connection open either.
TEST_F(ChannelExec, ProgramThatLivesOnDoesNotKeepTheConnectionOpen) {
  auto [left, right] = meet();
  int hold[2];
  ASSERT_EQ(pipe2(hold, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(hold[0], STDIN_FILENO);
    execl("/bin/cat", "cat", nullptr);  // Until the pipe ends.
    std::_Exit(127);
  }
  ASSERT_GT(child, 0);
  {
    const Channel gone = std::move(left);
  }
  auto receiving = right.receive(empty(64));
  EXPECT_TRUE(fails_with(receiving.wait(kPatience).result, Errc::peer_lost));
  ::close(hold[0]);
  ::close(hold[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace verbatim::test
