// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process finds others by slot, knows when they are gone, and is not fooled by files that
//       are no segments.
// Method: several segments in this process stand for several processes.
#include "soft/shared/peer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "soft/shared/segment.hpp"
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
  Peer* const self = peers.find(own->slot());
  ASSERT_NE(self, nullptr);
  EXPECT_TRUE(self->is_self());
  EXPECT_TRUE(self->is_alive());
  EXPECT_TRUE(self->has_memory());
  EXPECT_EQ(&self->segment(), &own->shared());
  EXPECT_EQ(&self->region(0), own->trusted_regions()) << "not what others can write";
  EXPECT_TRUE(peers.is_alive(own->tag()));
}

TEST_F(PeersTest, FindsAnotherAndMapsItsSegment) {
  const auto other = require(OwnSegment::create(directory));
  Peer* const found = peers.find(other->slot());
  ASSERT_NE(found, nullptr);
  EXPECT_FALSE(found->is_self());
  EXPECT_TRUE(found->is_alive());
  EXPECT_EQ(found->tag(), other->tag());
  EXPECT_EQ(found->pid(), static_cast<std::uint32_t>(getpid()));
  found->call_attention();
  EXPECT_EQ(other->shared().attention.load(), 1u);
  EXPECT_EQ(other->shared().doorbell.load(), 1u);
  EXPECT_EQ(peers.find(other->slot()), found) << "made once";
}

TEST_F(PeersTest, NoticesThatOneIsGoneAndAnotherCame) {
  auto other = require(OwnSegment::create(directory));
  const std::uint32_t slot = other->slot();
  const std::uint32_t tag = other->tag();
  Peer* const former = peers.find(slot);
  ASSERT_NE(former, nullptr);
  other.reset();
  EXPECT_FALSE(former->is_alive());
  EXPECT_FALSE(peers.is_alive(tag));
  EXPECT_EQ(peers.find(slot), nullptr);
  other = require(OwnSegment::create(directory));
  ASSERT_EQ(other->slot(), slot);
  Peer* const present = peers.find(slot);
  ASSERT_NE(present, nullptr);
  EXPECT_NE(present, former);
  EXPECT_EQ(present->tag(), other->tag());
  EXPECT_FALSE(former->is_alive()) << "once dead, always dead";
  EXPECT_FALSE(peers.is_alive(tag));
  former->segment().attention.store(1);  // Queue pairs may still point to it: it stays mapped.
}

TEST_F(PeersTest, NobodyIsNobody) {
  EXPECT_EQ(peers.find(700), nullptr);
  EXPECT_EQ(peers.find(kProcessSlots), nullptr);
  EXPECT_EQ(peers.find(0xffffffff), nullptr);
  EXPECT_FALSE(peers.is_alive(0));
  EXPECT_FALSE(peers.is_alive(tag_of(700, 5)));
}

TEST_F(PeersTest, ShortFileIsNoSegment) {
  // It would fault when touched beyond its end.
  const ClaimedSlot claimed = require(directory.claim());
  EXPECT_EQ(ftruncate(claimed.fd, 4096), 0);
  EXPECT_EQ(peers.find(claimed.slot), nullptr);
  directory.release(claimed.slot);
  close(claimed.fd);
}

TEST_F(PeersTest, SegmentThatIsNotReadyOrOfAnotherVersionIsNone) {
  const ClaimedSlot claimed = require(directory.claim());
  EXPECT_EQ(ftruncate(claimed.fd, static_cast<off_t>(kSegmentBytes)), 0);
  EXPECT_EQ(peers.find(claimed.slot), nullptr) << "no magic yet";
  const auto put = [&](std::uint64_t offset, const auto& value) {
    EXPECT_EQ(pwrite(claimed.fd, &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
  };
  put(offsetof(Segment, magic), kMagic);
  put(offsetof(Segment, slot), claimed.slot);
  put(offsetof(Segment, version), layout_version() + 1);
  EXPECT_EQ(peers.find(claimed.slot), nullptr) << "another version";
  put(offsetof(Segment, version), layout_version());
  put(offsetof(Segment, slot), claimed.slot + 1);
  EXPECT_EQ(peers.find(claimed.slot), nullptr) << "another slot";
  put(offsetof(Segment, slot), claimed.slot);
  EXPECT_NE(peers.find(claimed.slot), nullptr);
  directory.release(claimed.slot);
  close(claimed.fd);
}

TEST_F(PeersTest, ChannelOfNobodyIsNone) {
  const auto other = require(OwnSegment::create(directory));
  Peer* const found = peers.find(other->slot());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->channel(directory, 42), -1);
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
