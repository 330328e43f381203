// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: inspect() says who uses the software device and with what; files that are no segments, cut
//       ones and nonsense inside of them do no harm, and nobody's files are changed.
// Method: segments of this process, filled by hand; a child that dies with one; files of all kinds.
#include "verbatim/soft/inspect.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "soft/shared/directory.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/segment.hpp"
#include "support/forked_child.hpp"
#include "support/require.hpp"
#include "support/seed.hpp"
#include "unit/soft/program.hpp"
#include "unit/soft/soft_directory.hpp"

namespace verbatim::soft {
namespace {

namespace fs = std::filesystem;
using namespace verbatim::engine;
using test::require;

class InspectTest : public testing::Test {
 protected:
  /// One queue pair, one completion queue, one region and one object, with figures of ours.
  std::unique_ptr<OwnSegment> filled() {
    auto own = require(OwnSegment::create(require(Directory::open())));
    Segment& shared = own->shared();
    SharedQueuePair& pair = shared.queue_pairs[5];
    EXPECT_TRUE(own->back(&pair, sizeof pair));
    pair.number = number_of(own->slot(), 5);
    pair.state = 3;
    pair.type = 2;
    pair.peer = 77;
    pair.receives.posted = 12;
    pair.receives.taken = 9;
    SharedCompletionQueue& queue = shared.completion_queues[0];
    EXPECT_TRUE(own->back(&queue, sizeof queue));
    queue.generation = 1;
    queue.head = 40;
    EXPECT_TRUE(own->back_region(2));
    shared.regions[2].length = 4096;
    shared.regions[2].key = region_key(2, 1);
    shared.objects[1].bytes = 8192;
    shared.objects[1].fd = 4;
    return own;
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return place.path() + '/' + name;
  }

  test::TemporarySoftDirectory place;
};

TEST_F(InspectTest, WithoutADirectoryThereIsNobodyAndNoneIsMade) {
  const Inspection found = require(inspect());
  EXPECT_EQ(found.directory, place.path());
  EXPECT_TRUE(found.processes.empty());
  EXPECT_FALSE(fs::exists(place.path()));
}

TEST_F(InspectTest, SaysWhatAProcessHas) {
  const auto own = filled();
  const Inspection found = require(inspect());
  ASSERT_EQ(found.processes.size(), 1u);
  const InspectedProcess& process = found.processes[0];
  EXPECT_TRUE(process.is_alive);
  EXPECT_FALSE(process.is_other_build);
  EXPECT_EQ(process.pid, getpid());
  EXPECT_GT(process.file_bytes, 0u);
  ASSERT_EQ(process.queue_pairs.size(), 1u);
  EXPECT_EQ(process.queue_pairs[0].number, QpNumber{number_of(own->slot(), 5)});
  EXPECT_EQ(process.queue_pairs[0].state, 3u);
  EXPECT_EQ(process.queue_pairs[0].peer, QpNumber{77});
  EXPECT_EQ(process.queue_pairs[0].receives_posted, 12u);
  EXPECT_EQ(process.queue_pairs[0].receives_taken, 9u);
  EXPECT_EQ(process.completion_queues, 1u);
  EXPECT_EQ(process.completions, 40u);
  EXPECT_EQ(process.regions, 1u);
  EXPECT_EQ(process.region_bytes, 4096u);
  EXPECT_EQ(process.object_bytes, 8192u);
}

TEST_F(InspectTest, TellsTheDeadFromTheLiving) {
  static_cast<void>(test::status_of_child([&] {
    // Killed, as far as the others can tell.
    static_cast<void>(filled().release());
  }));
  const std::uint64_t alone = require(inspect()).processes.at(0).file_bytes;
  std::ofstream{file("m0-7")} << std::string(50 << 10, 'x');
  std::ofstream{file("m1-7")} << std::string(50 << 10, 'x');  // Of another slot.
  std::ofstream{file("m0-7.bak")} << std::string(50 << 10, 'x');
  const Inspection found = require(inspect());
  ASSERT_EQ(found.processes.size(), 1u);
  EXPECT_FALSE(found.processes[0].is_alive);
  EXPECT_GE(found.processes[0].file_bytes, alone + (50u << 10));
  EXPECT_LT(found.processes[0].file_bytes, alone + (80u << 10));
  EXPECT_TRUE(fs::exists(file("m0-7")));
}

TEST_F(InspectTest, SeesAnotherProgram) {
  const test::Program program{{{"VERBATIM_SOFT_DIR", place.path()}}};
  ASSERT_EQ(program.line(), "opened");
  const Inspection found = require(inspect());
  ASSERT_EQ(found.processes.size(), 1u);
  EXPECT_TRUE(found.processes[0].is_alive);
  EXPECT_NE(found.processes[0].pid, getpid());
}

TEST_F(InspectTest, KnowsNothingOfAnotherBuild) {
  const auto own = filled();
  own->shared().version ^= 1;
  const Inspection found = require(inspect());
  ASSERT_EQ(found.processes.size(), 1u);
  EXPECT_TRUE(found.processes[0].is_other_build);
  EXPECT_TRUE(found.processes[0].queue_pairs.empty());
}

TEST_F(InspectTest, PassesOverWhatIsNoSegment) {
  static_cast<void>(require(Directory::open()));
  std::ofstream{file("p3-0")} << "short";
  std::ofstream{file("p4-0")} << std::string(65536, 'x');
  std::ofstream{file("p99999999999-0")} << "x";
  std::ofstream{file("p5-0.bak")} << "x";
  std::ofstream{file("notes")} << "x";
  ASSERT_EQ(mkfifo(file("p6-0").c_str(), 0600), 0);
  fs::create_symlink(file("p4-0"), file("p7-0"));
  fs::create_directory(file("p8-0"));
  EXPECT_TRUE(require(inspect()).processes.empty());
}

TEST_F(InspectTest, SurvivesNonsenseAndACutFile) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  static_cast<void>(require(Directory::open()));
  std::string bytes(kRingsOffset, '\0');
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  const std::uint64_t magic = kMagic;
  const std::uint32_t version = layout_version();
  std::memcpy(bytes.data() + offsetof(Segment, magic), &magic, sizeof magic);
  std::memcpy(bytes.data() + offsetof(Segment, version), &version, sizeof version);
  std::ofstream{file("p2-0"), std::ios::binary} << bytes;
  const Inspection whole = require(inspect());
  ASSERT_EQ(whole.processes.size(), 1u);
  EXPECT_LE(whole.processes[0].queue_pairs.size(), kQueuePairs);
  for (const std::uintmax_t size : {bytes.size() - 1, bytes.size() / 2, sizeof(RelayBox), 4096uz}) {
    fs::resize_file(file("p2-0"), size);
    EXPECT_LE(require(inspect()).processes.size(), 1u) << size;
  }
}

TEST_F(InspectTest, ADirectoryThatCannotBeReadIsAnError) {
  std::ofstream{place.path()} << "no directory";
  const auto found = inspect();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().os_error, ENOTDIR);
}

}  // namespace
}  // namespace verbatim::soft
