// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process finds others by slot, knows when they are gone, and is not fooled by files that
//       are not segments.
// Method: several segments in this process stand for several processes.
// Covers: soft/peers.cpp
#include "soft/shared/peer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include "soft/shared/segment.hpp"
#include "support/few_descriptors.hpp"
#include "support/require.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::engine {
namespace {

using test::require;

class PeersTest : public testing::Test {
 protected:
  PeersTest() { peers.add_self(own->shared(), own->trusted_regions()); }

  test::TemporarySoftDirectory place;
  Directory directory = require(Directory::open());
  std::unique_ptr<OwnSegment> own = require(OwnSegment::create(directory));
  Peers peers{directory};
};

TEST_F(PeersTest, FindsItself) {
  const PeerRef self = peers.find(own->slot());
  ASSERT_TRUE(self);
  EXPECT_EQ(self.get(), &peers.self());
  EXPECT_TRUE(self->is_self());
  EXPECT_TRUE(self->is_alive());
  EXPECT_TRUE(self->has_memory());
  EXPECT_EQ(&self->segment(), &own->shared());
  EXPECT_EQ(&self->region(0), own->trusted_regions()) << "not what others can write";
  EXPECT_FALSE(peers.is_dead(own->tag()));
}

// It would allocate the page, or raise SIGBUS where /dev/shm is full.
TEST_F(PeersTest, LooksAtNoPlaceOfItsOwnTablesThatHasNoMemory) {
  EXPECT_EQ(peers.self().queue_pair(7), nullptr);
  EXPECT_EQ(peers.self().completion_queue(7), nullptr);
  SharedQueuePair& used = own->shared().queue_pairs[7];
  ASSERT_TRUE(own->back(&used, sizeof used));
  EXPECT_EQ(peers.self().queue_pair(7), &used);
}

// A pipe is known by its place in a table, which the next one may get.
TEST_F(PeersTest, WritesToThePipeThatHasTheNumberNow) {
  const auto other = require(OwnSegment::create(directory));
  const PeerRef found = peers.find(other->slot());
  ASSERT_TRUE(found);
  MemoryObject& place_of_pipe = other->shared().objects[3];
  ASSERT_TRUE(other->back(&place_of_pipe, sizeof place_of_pipe));
  const std::array<std::byte, 8> message{};
  // The first one stays open, as it does in a peer that has written to it.
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& ends : pipes) {
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    struct stat info{};
    ASSERT_EQ(fstat(ends[1], &info), 0);
    place_of_pipe.inode = info.st_ino;
    place_of_pipe.fd.store(static_cast<std::uint32_t>(ends[1]) + 1);
    EXPECT_TRUE(found->write_channel(directory, kPipeChannel | 3, message));
    std::array<std::byte, 8> came{};
    EXPECT_EQ(read(ends[0], came.data(), came.size()), 8) << "it went elsewhere";
  }
  for (const auto& ends : pipes)
    for (const int end : ends) close(end);
}

TEST_F(PeersTest, FindsAnotherAndMapsItsSegment) {
  const auto other = require(OwnSegment::create(directory));
  const PeerRef found = peers.find(other->slot());
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_self());
  EXPECT_TRUE(found->is_alive());
  EXPECT_EQ(found->tag(), other->tag());
  EXPECT_EQ(found->live_pid(), static_cast<std::uint32_t>(getpid()));
  found->call_attention();
  EXPECT_EQ(other->shared().attention.load(), 1u);
  EXPECT_EQ(other->shared().doorbell.load(), 1u);
  EXPECT_EQ(peers.find(other->slot()), found) << "made once";
}

TEST_F(PeersTest, NoticesThatOneIsGoneAndAnotherCame) {
  auto other = require(OwnSegment::create(directory));
  const std::uint32_t slot = other->slot();
  const std::uint32_t tag = other->tag();
  PeerRef former = peers.find(slot);
  ASSERT_TRUE(former);
  other.reset();
  EXPECT_FALSE(former->is_alive());
  EXPECT_TRUE(peers.is_dead(tag));
  EXPECT_FALSE(peers.find(slot));
  do {  // Only 21 random bits tell one from the next.
    other.reset();
    other = require(OwnSegment::create(directory));
  } while (other->tag() == tag);
  ASSERT_EQ(other->slot(), slot);
  const PeerRef present = peers.find(slot);
  ASSERT_TRUE(present);
  EXPECT_NE(present, former);
  EXPECT_EQ(present->tag(), other->tag());
  EXPECT_FALSE(former->is_alive()) << "once dead, always dead";
  EXPECT_TRUE(peers.is_dead(tag));
  EXPECT_EQ(former->live_pid(), 0u) << "a pid is another process's some day";
  former->segment().attention.store(1);  // Stays mapped: queue pairs may still point to it.
}

int mappings_of(const std::string& part) {
  std::ifstream maps{"/proc/self/maps"};
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find(part) != std::string::npos) ++count;
  return count;
}

TEST_F(PeersTest, LetsGoOfTheDeadWhenNobodyHoldsThem) {
  auto other = require(OwnSegment::create(directory));
  const std::string file = directory.file('p', other->slot(), 0);
  PeerRef held = peers.find(other->slot());
  ASSERT_TRUE(held);
  other.reset();
  EXPECT_EQ(peers.retire(), nullptr);
  EXPECT_GT(mappings_of(file), 0) << "a queue pair may look at it";
  held = nullptr;
  EXPECT_EQ(mappings_of(file), 0);
}

TEST_F(PeersTest, MapsTheTableOfRegionsForReadingOnly) {
  const auto other = require(OwnSegment::create(directory));
  const PeerRef found = peers.find(other->slot());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->region_count(), 0u);
  require(other->back_region(3));
  EXPECT_GT(found->region_count(), 3u);
  EXPECT_EQ(found->region(3).key.load(), 0u);
  found->segment().region_marks[3].store(7);
  EXPECT_EQ(other->shared().region_marks[3].load(), 7u);
  std::ifstream maps{"/proc/self/maps"};
  const auto table = reinterpret_cast<std::uintptr_t>(found->segment().regions);
  bool is_read_only = false;
  for (std::string line; std::getline(maps, line);)
    if (std::stoull(line, nullptr, 16) == table) is_read_only = line.find(" r--s ") < line.size();
  EXPECT_TRUE(is_read_only);
}

TEST_F(PeersTest, QueuePairWithoutMemoryBehindItIsNone) {
  const auto other = require(OwnSegment::create(directory));
  const PeerRef found = peers.find(other->slot());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->queue_pair(5), nullptr);
  require(other->back(&other->shared().queue_pairs[5], sizeof(SharedQueuePair)));
  EXPECT_EQ(found->queue_pair(5), &found->segment().queue_pairs[5]);
  EXPECT_EQ(found->queue_pair(kQueuePairs - 1), nullptr);
  EXPECT_EQ(found->queue_pair(kQueuePairs), nullptr);
}

TEST_F(PeersTest, SegmentThatWasCutShortIsDead) {
  const auto other = require(OwnSegment::create(directory));
  const PeerRef found = peers.find(other->slot());
  ASSERT_TRUE(found && found->is_alive());
  ASSERT_EQ(truncate(directory.file('p', other->slot(), 0).c_str(), 4096), 0);
  EXPECT_FALSE(found->is_alive());
  EXPECT_FALSE(found->seems_alive());
}

TEST_F(PeersTest, NobodyIsNobody) {
  EXPECT_FALSE(peers.find(700));
  EXPECT_FALSE(peers.find(kProcessSlots));
  EXPECT_FALSE(peers.find(0xffffffff));
  EXPECT_TRUE(peers.is_dead(0));
  EXPECT_TRUE(peers.is_dead(tag_of(700, 5)));
}

TEST_F(PeersTest, ProcessThatCannotBeAttachedIsNotDead) {
  const auto other = require(OwnSegment::create(directory));
  const test::FewDescriptors none{0};
  EXPECT_FALSE(peers.find(other->slot()));
  EXPECT_FALSE(peers.is_dead(other->tag()));
  EXPECT_FALSE(peers.is_dead(tag_of(700, 5))) << "nobody can tell";
}

TEST_F(PeersTest, ProcessThatIsKnownToBeDeadIsSoWithoutADescriptor) {
  auto other = require(OwnSegment::create(directory));
  const std::uint32_t tag = other->tag();
  ASSERT_TRUE(peers.find(other->slot()));
  other.reset();
  const test::FewDescriptors none{0};
  EXPECT_TRUE(peers.is_dead(tag));
}

TEST_F(PeersTest, ShortFileIsNoSegment) {
  // An access beyond its end would fault.
  const ClaimedSlot claimed = require(directory.claim());
  EXPECT_EQ(ftruncate(claimed.fd, 4096), 0);
  EXPECT_FALSE(peers.find(claimed.slot));
  directory.release(claimed.slot);
  ::close(claimed.fd);
}

TEST_F(PeersTest, SegmentThatIsNotReadyOrOfAnotherVersionIsNone) {
  const ClaimedSlot claimed = require(directory.claim());
  EXPECT_EQ(ftruncate(claimed.fd, static_cast<off_t>(kSegmentBytes)), 0);
  EXPECT_FALSE(peers.find(claimed.slot)) << "no magic yet";
  const auto put = [&](std::uint64_t offset, const auto& value) {
    EXPECT_EQ(pwrite(claimed.fd, &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
  };
  put(offsetof(Segment, magic), kMagic);
  put(offsetof(Segment, slot), claimed.slot);
  put(offsetof(Segment, version), layout_version() + 1);
  EXPECT_FALSE(peers.find(claimed.slot)) << "another version";
  put(offsetof(Segment, version), layout_version());
  put(offsetof(Segment, slot), claimed.slot + 1);
  EXPECT_FALSE(peers.find(claimed.slot)) << "another slot";
  put(offsetof(Segment, slot), claimed.slot);
  EXPECT_TRUE(peers.find(claimed.slot));
  directory.release(claimed.slot);
  ::close(claimed.fd);
}

TEST_F(PeersTest, ChannelOfNobodyIsNone) {
  const auto other = require(OwnSegment::create(directory));
  const PeerRef found = peers.find(other->slot());
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->write_channel(directory, 42, {}));
  EXPECT_FALSE(found->write_channel(directory, kPipeChannel | 3, {}));
  EXPECT_FALSE(found->write_channel(directory, ~0u, {}));
}

TEST(MemoryPolicy, EnvironmentDeniesWays) {
  struct Case {
    const char* value;
    bool map_objects;
    bool process_vm;
  };
  for (const auto& [value, map_objects, process_vm] :
       {Case{"mapped", true, true}, Case{"process", false, true}, Case{"relay", false, false}}) {
    setenv("VERBATIM_SOFT_MEMORY", value, 1);
    EXPECT_EQ(memory_policy().map_objects, map_objects) << value;
    EXPECT_EQ(memory_policy().process_vm, process_vm) << value;
  }
  unsetenv("VERBATIM_SOFT_MEMORY");
  EXPECT_TRUE(memory_policy().map_objects && memory_policy().process_vm);
}

}  // namespace
}  // namespace verbatim::engine
