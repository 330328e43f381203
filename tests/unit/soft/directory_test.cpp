// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: processes find each other in a directory that no other user can enter; slots of dead
//       processes are taken over, slots of live ones never.
// Method: locks of open file descriptions exclude each other inside one process too, so most of it
//         runs here; for a dead process, a forked child is killed.
#include "soft/shared/directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "soft/shared/layout.hpp"
#include "support/forked_child.hpp"
#include "support/named_error.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::engine {
namespace {

namespace fs = std::filesystem;
using test::fails_naming;
using test::require;

class DirectoryTest : public testing::Test {
 protected:
  test::TemporarySoftDirectory place;
};

TEST_F(DirectoryTest, IsMadeForItsOwnerAlone) {
  const Directory directory = require(Directory::open());
  EXPECT_EQ(directory.path(), place.path());
  struct stat info{};
  ASSERT_EQ(stat(place.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_NE(directory.fabric_id(), 0u);
  EXPECT_EQ(directory.fabric_id(), require(Directory::open()).fabric_id());
}

TEST_F(DirectoryTest, GoesWithTheLastProcessIfWeMadeIt) {
  const Directory directory = require(Directory::open());
  const ClaimedSlot claimed = require(directory.claim());
  directory.release(claimed.slot);
  ::close(claimed.fd);
  EXPECT_FALSE(fs::exists(place.path()));
}

TEST_F(DirectoryTest, StaysIfTheUserMadeIt) {
  fs::create_directory(place.path());
  fs::permissions(place.path(), fs::perms::owner_all);
  const Directory directory = require(Directory::open());
  const ClaimedSlot claimed = require(directory.claim());
  directory.release(claimed.slot);
  ::close(claimed.fd);
  EXPECT_TRUE(fs::is_empty(place.path()));
}

TEST_F(DirectoryTest, RemovesOnlyFilesOfItsSlots) {
  fs::create_directory(place.path());
  fs::permissions(place.path(), fs::perms::owner_all);
  const Directory directory = require(Directory::open());
  const ClaimedSlot claimed = require(directory.claim());
  const std::string others = directory.file('m', claimed.slot, 7) + ".bak";
  std::ofstream{directory.file('m', claimed.slot, 7)} << "ours";
  std::ofstream{others} << "somebody else's";
  directory.release(claimed.slot);
  ::close(claimed.fd);
  EXPECT_FALSE(fs::exists(directory.file('m', claimed.slot, 7)));
  EXPECT_TRUE(fs::exists(others));
}

TEST_F(DirectoryTest, IsElsewhereWhereAnotherUserSits) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const std::string named = place.path();
  unsetenv("VERBATIM_SOFT_DIR");
  const DirectoryPlaces places{named, named + "-home", named + "-home/verbatim"};
  fs::create_directory(places.first);
  ASSERT_EQ(chown(places.first.c_str(), 65534, 65534), 0);
  EXPECT_TRUE(fails_naming(Directory::open_at(places), Errc::permission_denied, "owned by uid",
                           {.value = 65534}));
  fs::create_directory(places.second_parent);
  fs::permissions(places.second_parent, fs::perms::owner_all | fs::perms::group_write);
  EXPECT_TRUE(fails_naming(Directory::open_at(places), Errc::permission_denied, "owned by uid",
                           {.value = 65534}))
      << "others could put something there";
  fs::permissions(places.second_parent, fs::perms::owner_all);
  EXPECT_EQ(require(Directory::open_at(places)).path(), places.second);
  fs::remove_all(places.second_parent);
}

TEST_F(DirectoryTest, RefusesALink) {
  fs::create_directory(place.path() + "-real");
  fs::permissions(place.path() + "-real", fs::perms::owner_all);
  fs::create_symlink(place.path() + "-real", place.path());
  EXPECT_TRUE(fails_naming(Directory::open(), Errc::permission_denied, "symbolic link"));
  fs::remove(place.path());
  fs::remove(place.path() + "-real");
}

TEST_F(DirectoryTest, RefusesAFile) {
  std::ofstream{place.path()} << "x";
  EXPECT_TRUE(fails_naming(Directory::open(), Errc::permission_denied, "not a directory"));
}

TEST_F(DirectoryTest, RefusesOneThatIsOpenToOthersAndNamesIt) {
  fs::create_directory(place.path());
  fs::permissions(place.path(), fs::perms::owner_all | fs::perms::group_exec);
  const auto opened = Directory::open();
  EXPECT_TRUE(fails_naming(opened, Errc::permission_denied, "mode", {.value = 0710}));
  EXPECT_TRUE(place.path().starts_with(opened.error().text_view()));
  EXPECT_FALSE(opened.error().text_view().empty());
}

TEST_F(DirectoryTest, RefusesOneThatAnotherUserOwns) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directory(place.path());
  fs::permissions(place.path(), fs::perms::owner_all);
  ASSERT_EQ(chown(place.path().c_str(), 65534, 65534), 0);
  EXPECT_TRUE(
      fails_naming(Directory::open(), Errc::permission_denied, "owned by uid", {.value = 65534}));
}

TEST_F(DirectoryTest, GivesOutTheLowestFreeSlot) {
  const Directory directory = require(Directory::open());
  const ClaimedSlot first = require(directory.claim());
  const ClaimedSlot second = require(directory.claim());
  EXPECT_EQ(first.slot, 0u);
  EXPECT_EQ(second.slot, 1u);
  directory.release(first.slot);
  ::close(first.fd);
  const ClaimedSlot third = require(directory.claim());
  EXPECT_EQ(third.slot, 0u);
  for (const ClaimedSlot& each : {second, third}) {
    directory.release(each.slot);
    ::close(each.fd);
  }
  EXPECT_FALSE(fs::exists(place.path())) << "the last one removes the directory";
}

TEST_F(DirectoryTest, KnowsWhoIsAlive) {
  const Directory directory = require(Directory::open());
  const ClaimedSlot claimed = require(directory.claim());
  const int seen = require(directory.open_slot(claimed.slot));
  EXPECT_TRUE(Directory::is_held(seen));
  ::close(claimed.fd);
  EXPECT_FALSE(Directory::is_held(seen));
  ::close(seen);
  EXPECT_TRUE(test::fails_with(directory.open_slot(5), Errc::not_found));
  directory.release(0);
}

TEST_F(DirectoryTest, TakesOverWhatTheDeadLeft) {
  const Directory directory = require(Directory::open());
  const int status = test::status_of_child([&] {
    const ClaimedSlot claimed = require(directory.claim());
    EXPECT_EQ(ftruncate(claimed.fd, 100), 0);
    std::ofstream{directory.file('c', claimed.slot, 7)} << "x";
    raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(fs::exists(directory.file('c', 0, 7)));
  const ClaimedSlot claimed = require(directory.claim());
  EXPECT_EQ(claimed.slot, 0u);
  EXPECT_FALSE(fs::exists(directory.file('c', 0, 7)));
  struct stat info{};
  ASSERT_EQ(fstat(claimed.fd, &info), 0);
  EXPECT_EQ(info.st_size, 0) << "a new file: peers may still have the dead one mapped";
  directory.release(claimed.slot);
  ::close(claimed.fd);
  EXPECT_FALSE(fs::exists(place.path()));
}

TEST_F(DirectoryTest, RemovesAThousandFiles) {  // The kernel lists them in many parts.
  const Directory directory = require(Directory::open());
  const ClaimedSlot claimed = require(directory.claim());
  for (std::uint32_t number = 1; number <= 1000; ++number)
    std::ofstream{directory.file('m', claimed.slot, number)} << "ours";
  directory.release(claimed.slot);
  ::close(claimed.fd);
  EXPECT_FALSE(fs::exists(place.path()));
}

TEST_F(DirectoryTest, RemovesWhatAnEarlierOwnerOfTheSlotLeft) {
  // A process that had no descriptor left when it ended removed only its segment.
  fs::create_directory(place.path());
  fs::permissions(place.path(), fs::perms::owner_all);
  const Directory directory = require(Directory::open());
  ASSERT_EQ(mkfifo(directory.file('c', 0, 1).c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(directory.file('c', 1, 1).c_str(), 0600), 0);
  const ClaimedSlot claimed = require(directory.claim());
  ASSERT_EQ(claimed.slot, 0u);
  EXPECT_FALSE(fs::exists(directory.file('c', 0, 1)));
  EXPECT_TRUE(fs::exists(directory.file('c', 1, 1))) << "its slot was not claimed";
  EXPECT_TRUE(fs::exists(directory.file('p', 0, 0)));
  directory.release(claimed.slot);
  ::close(claimed.fd);
}

TEST_F(DirectoryTest, IsTheSameAfterTheProcessWentElsewhere) {
  const std::string name = fs::path{place.path()}.filename();
  setenv("VERBATIM_SOFT_DIR", name.c_str(), 1);
  test::in_forked_child([&] {
    fs::current_path(fs::path{place.path()}.parent_path());
    const Directory directory = require(Directory::open());
    fs::current_path("/");
    EXPECT_EQ(directory.path(), place.path());
    const ClaimedSlot claimed = require(directory.claim());
    EXPECT_TRUE(fs::exists(directory.file('p', claimed.slot, 0)));
    directory.release(claimed.slot);
    ::close(claimed.fd);
  });
  setenv("VERBATIM_SOFT_DIR", place.path().c_str(), 1);
}

TEST_F(DirectoryTest, LeavesTheLivingAloneWhenItCleansUp) {
  const Directory directory = require(Directory::open());
  const ClaimedSlot living = require(directory.claim());
  const ClaimedSlot leaving = require(directory.claim());
  directory.release(leaving.slot);
  ::close(leaving.fd);
  EXPECT_TRUE(fs::exists(directory.file('p', living.slot, 0)));
  directory.release(living.slot);
  ::close(living.fd);
}

TEST_F(DirectoryTest, NeverGivesASlotToTwo) {
  // Threads that come and go race for the lowest slots. The holder of a slot must be the only one,
  // and its file must stay in the directory.
  std::array<std::atomic<int>, kProcessSlots> holders{};
  std::atomic<int> wrong{0};
  const auto come_and_go = [&] {
    for (int round = 0; round < 300; ++round) {
      const auto directory = Directory::open();
      const auto claimed = directory ? directory->claim() : std::unexpected(directory.error());
      if (!claimed) {
        ++wrong;
        continue;
      }
      struct stat named{};
      struct stat held{};
      if (holders[claimed->slot].fetch_add(1) != 0) ++wrong;
      EXPECT_EQ(ftruncate(claimed->fd, 100), 0);
      std::this_thread::yield();
      if (stat(directory->file('p', claimed->slot, 0).c_str(), &named) != 0 ||
          fstat(claimed->fd, &held) != 0 || named.st_ino != held.st_ino)
        ++wrong;
      holders[claimed->slot].fetch_sub(1);
      directory->release(claimed->slot);
      ::close(claimed->fd);
    }
  };
  {
    const std::jthread first{come_and_go};
    const std::jthread second{come_and_go};
    const std::jthread third{come_and_go};
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_FALSE(fs::exists(place.path()));
}

}  // namespace
}  // namespace verbatim::engine
