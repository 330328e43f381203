// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a lock whose holder died is taken over; a lock whose holder is alive is waited for, but not
//       for ever.
// Method: two owners in this process (each with a segment, so each counts as alive), and a forked
//         child that dies while it holds the lock.
#include "soft/shared/tagged_lock.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "soft/shared/directory.hpp"
#include "soft/shared/segment.hpp"
#include "support/few_descriptors.hpp"
#include "support/forked_child.hpp"
#include "support/require.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::engine {
namespace {

using namespace std::chrono_literals;
using test::require;

/// What one process has: a segment, which makes it count as alive, and a view of the others.
struct Owner {
  explicit Owner(const Directory& directory)
      : own(require(OwnSegment::create(directory))), peers(directory) {
    peers.add_self(own->shared(), own->trusted_regions());
  }
  std::unique_ptr<OwnSegment> own;
  Peers peers;
};

class TaggedLock : public testing::Test {
 protected:
  test::TemporarySoftDirectory place;
  Directory directory = require(Directory::open());
  Owner us{directory};
  Word lock{0};
};

TEST_F(TaggedLock, IsTakenAndReleased) {
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::yes);
  EXPECT_EQ(lock.load(), us.own->tag());
  release(lock);
  EXPECT_EQ(lock.load(), 0u);
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::yes);
}

TEST_F(TaggedLock, LivingHolderIsWaitedForInBoundedTime) {
  Owner other{directory};
  ASSERT_EQ(acquire(lock, other.own->tag(), other.peers), Acquired::yes);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers, 30ms), Acquired::no);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 30ms);
  EXPECT_LT(took, 30s);  // Each look may cost a turn of another program on this processor.
  EXPECT_EQ(lock.load(), other.own->tag());
}

TEST_F(TaggedLock, HolderThatWentIsReplaced) {
  {
    Owner other{directory};
    ASSERT_EQ(acquire(lock, other.own->tag(), other.peers), Acquired::yes);
  }
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::taken_over);
}

TEST_F(TaggedLock, HolderIsNotReplacedWithoutADescriptorToFindItOut) {
  std::optional<Owner> other{std::in_place, directory};
  ASSERT_EQ(acquire(lock, other->own->tag(), other->peers), Acquired::yes);
  {
    const test::FewDescriptors none{0};
    EXPECT_EQ(acquire(lock, us.own->tag(), us.peers, 30ms), Acquired::no);
    EXPECT_EQ(lock.load(), other->own->tag());
  }
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers, 30ms), Acquired::no);
  other.reset();
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::taken_over);
}

TEST_F(TaggedLock, HolderIsNotReplacedWhileTheDirectoryCannotBeSeen) {
  std::optional<Owner> other{std::in_place, directory};
  ASSERT_EQ(acquire(lock, other->own->tag(), other->peers), Acquired::yes);
  const std::string away = place.path() + "-away";
  // As after chroot(): there is no such file, but that says nothing about the process.
  ASSERT_EQ(std::rename(place.path().c_str(), away.c_str()), 0);
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers, 30ms), Acquired::no);
  EXPECT_EQ(std::rename(away.c_str(), place.path().c_str()), 0);
  other.reset();
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::taken_over);
}

TEST_F(TaggedLock, SuccessorInTheSameSlotIsNotTheHolder) {
  {
    Owner other{directory};
    ASSERT_EQ(acquire(lock, other.own->tag(), other.peers), Acquired::yes);
  }
  std::optional<Owner> successor;
  do {  // Only 21 random bits tell one from the next.
    successor.emplace(directory);
  } while (successor->own->tag() == lock.load());
  ASSERT_EQ(slot_of_tag(lock.load()), successor->own->slot());
  EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::taken_over);
}

TEST_F(TaggedLock, KilledHolderIsReplaced) {
  void* const memory =
      mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Word& shared = *new (memory) Word{0};
  const int status = test::status_of_child([&] {
    Owner child{directory};
    EXPECT_EQ(acquire(shared, child.own->tag(), child.peers), Acquired::yes);
    raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_NE(shared.load(), 0u);
  EXPECT_EQ(acquire(shared, us.own->tag(), us.peers), Acquired::taken_over);
  munmap(memory, sizeof(Word));
}

TEST_F(TaggedLock, NonsenseInTheWordIsReplaced) {
  const std::uint32_t of_our_slot = us.own->tag() ^ 0x800;
  for (const std::uint32_t nonsense : {of_our_slot, 0x800u, 0xffffffffu, 0x12345678u}) {
    lock.store(nonsense);
    EXPECT_EQ(acquire(lock, us.own->tag(), us.peers), Acquired::taken_over) << nonsense;
    release(lock);
  }
}

TEST_F(TaggedLock, ExcludesOwnersFromEachOther) {
  Owner other{directory};
  std::uint64_t counter = 0;  // Not atomic: the lock must protect it.
  const auto count = [&](Owner& owner) {
    for (int i = 0; i < 20'000; ++i) {
      if (acquire(lock, owner.own->tag(), owner.peers, 30s) == Acquired::no) return;
      ++counter;
      release(lock);
    }
  };
  {
    const std::jthread one{[&] { count(us); }};
    const std::jthread two{[&] { count(other); }};
  }
  EXPECT_EQ(counter, 40'000u);
}

}  // namespace
}  // namespace verbatim::engine
