// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whichever way the kernel lets two processes reach each other's memory, the data is right,
//       and the library reports which way it is.
// Method: two processes with VERBATIM_SOFT_MEMORY set; sends, writes, reads and atomics between
//         Buffers, and between ordinary memory.
// Covers: soft/memory_paths.cpp, soft/relay.cpp
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <numeric>

#include "support/device_under_test.hpp"
#include "survival/conversation.hpp"
#include "survival/process.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::test {
namespace {

void require_that(bool holds, const char* what) {
  if (!holds) give_up(what, Where::current());
}

/// Writes into and reads from ordinary memory of the peer, which does the same to ours.
void use_ordinary_memory(Session& session, Link& link, unsigned rank) {
  constexpr std::size_t kBytes = 100'001;  // More than a relay carries at once, and odd.
  alignas(8) static std::array<std::byte, kBytes + 16> exposed;
  static std::array<std::byte, kBytes> local;
  const auto shared = require(session.domain.register_shared(exposed, kRemoteAccess));
  const auto region = require(session.domain.register_local(local));
  link.send(encode(shared.remote()));
  const RemoteMemoryRegion peer = require(decode_remote_memory(link.receive()));

  fill(local, 100 + rank);
  link.barrier();
  session.side.post(Write{region.gather(local), peer.sub_region(16, kBytes).value()}, 1);
  poll_ok(session.side.sends);
  const auto word = require(RemoteAtomic::at(peer, 8));
  for (std::uint64_t i = 0; i < 10; ++i) {
    session.side.post(FetchAdd{region.scatter(std::span{local}.first(8)), word, 3}, 2);
    poll_ok(session.side.sends);
  }
  link.barrier();
  require_that(bool{holds(std::span{exposed}.subspan(16), 101 - rank)}, "a write went wrong");
  require_that(shared.load_acquire<std::uint64_t>(8) == 30, "an atomic went wrong");
  link.barrier();
  session.side.post(Read{region.scatter(local), peer.sub_region(16, kBytes).value()}, 3);
  poll_ok(session.side.sends);
  require_that(bool{holds(local, 100 + rank)}, "a read went wrong");
  link.barrier();  // The peer may still be reading our memory.
}

soft::MemoryPath path_named(const std::string& name) {
  if (name == "relay") return soft::MemoryPath::relay;
  return name == "process" ? soft::MemoryPath::process : soft::MemoryPath::mapped;
}

}  // namespace

/// Arguments: rank, and the expected path to Buffers and to other memory. The link carries the
/// number of the other's queue pair.
int play_path(const std::vector<std::string>& role) {
  const auto rank = static_cast<unsigned>(std::stoul(role.at(1)));
  Link link{kFirstLinkFd};
  Session session = join(link);
  converse(session, link, rank);
  use_ordinary_memory(session, link, rank);
  link.send(encode(session.side.queue_pair.endpoint()));
  const Endpoint peer = require(decode_endpoint(link.receive()));
  const soft::MemoryPaths paths = require(soft::memory_paths(peer.queue_pair));
  require_that(paths.buffer == path_named(role.at(2)), "the path to Buffers is another");
  require_that(paths.other == path_named(role.at(3)), "the path to other memory is another");
  link.barrier();  // Both have asked before one leaves.
  return 0;
}

namespace {

struct Ways {
  const char* setting;
  const char* buffer;
  const char* other;
};

class MemoryPaths : public testing::TestWithParam<Ways> {};

TEST_P(MemoryPaths, MoveVerifiedData) {
  const SoftDirectory directory;
  const auto [setting, buffer, other] = GetParam();
  setenv("VERBATIM_SOFT_MEMORY", setting, 1);
  const auto [a, b] = socket_pair();
  Process first = Process::start({"path", "0", buffer, other}, {a});
  Process second = Process::start({"path", "1", buffer, other}, {b});
  unsetenv("VERBATIM_SOFT_MEMORY");
  EXPECT_EQ(first.wait_for_end(), 0);
  EXPECT_EQ(second.wait_for_end(), 0);
  EXPECT_TRUE(directory.is_gone());
}

INSTANTIATE_TEST_SUITE_P(Ways, MemoryPaths,
                         testing::Values(Ways{"mapped", "mapped", "process"},
                                         Ways{"process", "process", "process"},
                                         Ways{"relay", "relay", "relay"}),
                         [](const auto& each) { return each.param.setting; });

}  // namespace
}  // namespace verbatim::test
