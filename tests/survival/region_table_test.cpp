// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: peers can see who may use which memory, but cannot change it.
// Method: how this process has mapped the segment of a peer with which it exchanges data.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <fstream>

#include "soft/shared/layout.hpp"
#include "survival/contained.hpp"
#include "survival/engine_layout.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// Converses like any peer. Link: to the other.
int play_partner(const std::vector<std::string>&) {
  Link link{kFirstLinkFd};
  Session session = join(link);
  converse(session, link, 1);
  link.barrier();
  return 0;
}
const Role kPartner{"partner", &play_partner};

/// A mapping of a file, from /proc/self/maps.
struct FileMapping {
  std::uint64_t begin;  // In the file.
  std::uint64_t end;
  bool writable;
};

std::vector<FileMapping> mappings_of(const std::string& path) {
  std::vector<FileMapping> all;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path)) continue;
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t offset = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64, &from, &to, rights,
                    &offset) == 4)
      all.push_back({offset, offset + (to - from), rights[1] == 'w'});
  }
  return all;
}

TEST(RegionTable, IsReadOnlyForPeers) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [&] {
    const auto [here, there] = socket_pair();
    Process partner = Process::start({"partner"}, {there});
    Link link{here};
    Session session = join(link);
    converse(session, link, 0);
    const std::uint32_t own = std::to_underlying(session.side.queue_pair.number()) >> 14;
    const auto all = mappings_of(directory.path() + "/p" + std::to_string(1 - own) + "-0");
    ASSERT_FALSE(all.empty()) << "the peer's segment is mapped somewhere";
    bool is_seen = false;
    for (const FileMapping& each : all) {
      const bool meets = each.begin < kRegionTableEnd && kRegionTableBegin < each.end;
      is_seen = is_seen || meets;
      EXPECT_FALSE(meets && each.writable)
          << "the file from " << each.begin << " to " << each.end << "; the table is from "
          << kRegionTableBegin << " to " << kRegionTableEnd;
    }
    EXPECT_TRUE(is_seen);
    link.barrier();
    EXPECT_EQ(partner.wait_for_end(), 0);
  });
}

// Whoever can write to the header of a peer can name a size of its table that leads out of it.
TEST(RegionTable, SizeThatMakesNoSenseCrashesNoSender) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(60s, [&] {
    const auto [here, there] = socket_pair();
    Process partner = Process::start({"partner"}, {there});
    Link link{here};
    Session session = join(link);
    const std::uint32_t own = std::to_underlying(session.side.queue_pair.number()) >> 14;
    std::fstream header{directory.path() + "/p" + std::to_string(1 - own) + "-0",
                        std::ios::in | std::ios::out | std::ios::binary};
    const auto write = [&](std::size_t at, std::uint32_t value) {
      header.seekp(static_cast<std::streamoff>(at));
      header.write(reinterpret_cast<const char*>(&value), sizeof value);
    };
    write(offsetof(engine::Segment, regions_overlap), 1);
    write(offsetof(engine::Segment, regions_backed), ~0u);
    header.close();
    converse(session, link, 0);  // Its first messages mark the memory to which they go.
    link.barrier();
    EXPECT_EQ(partner.wait_for_end(), 0);
  });
}

}  // namespace
}  // namespace verbatim::test
