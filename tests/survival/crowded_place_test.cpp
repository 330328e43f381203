// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a directory of another user in the usual place does not prevent work if there is another
//       place; if there is none, the error names the owner. And a process that gave up its rights
//       after it opened the device keeps working.
// Method: root's view of a separate /dev/shm and a separate /run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/pattern.hpp"
#include "survival/meeting.hpp"
#include "survival/private_mounts.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr uid_t kSomebody = 12345;
constexpr char kUsual[] = "/dev/shm/verbatim-0";
constexpr char kPersonal[] = "/run/user/0";

/// Runs `body` in a process of root, with an empty /dev/shm and an empty /run.
template <class Body>
void in_fresh_places(Body body) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make somebody else's directory";
  VERBATIM_CONTAINED(60s, [&] {
    unsetenv("VERBATIM_SOFT_DIR");
    unsetenv("XDG_RUNTIME_DIR");
    own_mounts();
    mount_tmpfs("/dev/shm", "mode=1777,size=64m");
    mount_tmpfs("/run", "mode=755,size=64m");
    body();
  });
}

void make_directory(const char* path, mode_t mode, uid_t owner) {
  std::filesystem::create_directories(path);
  ASSERT_EQ(chmod(path, mode), 0);
  ASSERT_EQ(chown(path, owner, owner), 0);
}

TEST(CrowdedPlace, SomebodyElsesDirectoryIsPassedOver) {
  in_fresh_places([] {
    make_directory(kUsual, 0700, kSomebody);
    make_directory(kPersonal, 0700, 0);
    ConnectedPair pair;
    exchange(pair);
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path{kPersonal} / "verbatim" / "p0-0"));
    EXPECT_TRUE(std::filesystem::is_empty(kUsual));
  });
}

TEST(CrowdedPlace, NoOtherPlaceIsAnErrorThatNamesTheOwner) {
  for (const bool foreign_personal : {false, true})
    in_fresh_places([&] {
      make_directory(kUsual, 0700, kSomebody);
      if (foreign_personal) make_directory(kPersonal, 0700, kSomebody);
      const auto context = open_device({.name = "soft0"});
      ASSERT_FALSE(context);
      const std::string text = to_string(context.error());
      EXPECT_TRUE(context.error() == Errc::permission_denied) << text;
      EXPECT_TRUE(text.contains(kUsual)) << text;
      EXPECT_TRUE(text.contains(std::to_string(kSomebody))) << text;
    });
}

TEST(CrowdedPlace, ModeIsPrintedAsPeopleWriteIt) {
  in_fresh_places([] {
    make_directory(kUsual, 0755, 0);
    const auto context = open_device({.name = "soft0"});
    ASSERT_FALSE(context);
    const std::string text = to_string(context.error());
    EXPECT_TRUE(text.contains("0755")) << text;
    EXPECT_TRUE(text.contains(kUsual)) << text;
  });
}

/// Both sides of a talk with sleeping: opens the device, perhaps becomes nobody, and only then
/// creates its channel and the rest. Arguments: root or nobody; 0 or 1. Link: to the other.
int play_sleeper(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const std::uint64_t rank = std::stoull(role.at(2));
  CompletionQueue sends = completion_queue(domain.context(), 64);
  // The process opens files of others with its present rights, so it has met them before.
  CompletionQueue first_receives = completion_queue(domain.context(), 64);
  const Meeting before = meet(link, queue_pair_options(domain, sends, first_receives));
  if (role.at(1) == "nobody" &&
      (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0))
    return 2;
  const auto channel = require(domain.context().create_completion_channel());
  CompletionQueue receives = completion_queue(domain.context(), 64, channel);
  Meeting with = meet(link, queue_pair_options(domain, sends, receives));
  Buffer memory = require(domain.allocate(4096));
  const auto take_turn = [&](bool sending, std::size_t bytes, std::uint64_t seed) {
    if (sending) {
      link.barrier();  // The other has armed and is about to sleep.
      fill(memory.bytes().first(bytes), seed);
      require(unsafe::post(with.queue_pair, Send{memory.gather(0, bytes)}, WrId{1}));
      poll_ok(sends);
      return true;
    }
    require(unsafe::post(with.queue_pair, Receive{memory.scatter()}, WrId{2}));
    require(receives.arm());
    link.barrier();
    if (require(channel.wait(10s)) != 1) return false;
    poll_ok(receives);
    return bool{holds(memory.bytes().first(bytes), seed)};
  };
  for (std::uint64_t round = 0; round < 20; ++round)
    if (!take_turn(round % 2 == rank, round % 4 < 2 ? 16 : 1000, round)) return 3;
  link.barrier();
  return 0;
}
const Role kSleeper{"sleeper", &play_sleeper};

TEST(CrowdedPlace, ProcessThatGaveUpItsRightsWorksOn) {
  for (const char* const peer : {"root", "nobody"})
    in_fresh_places([&] {
      const auto [a, b] = socket_pair();
      Process dropped = Process::start({"sleeper", "nobody", "0"}, {a});
      Process other = Process::start({"sleeper", peer, "1"}, {b});
      EXPECT_EQ(dropped.wait_for_end(), 0) << "with a peer that is " << peer;
      EXPECT_EQ(other.wait_for_end(), 0) << peer;
    });
}

}  // namespace
}  // namespace verbatim::test
