// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel reads, writes and counts in ordinary memory of another process, in every build: a
//       checker that watches our memory must not take the device's access for the program's.
// Method: a child that shares a vector; every byte is checked. The lane asan runs this under
//         AddressSanitizer.
// Covers: soft/process_copy.cpp
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "conformance/peer_session.hpp"
#include "support/pattern.hpp"
#include "survival/contained.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 64 << 10;

/// Both sides of a connection over this socket. Its timers outlast a peer that gets no processor:
/// where the kernel denies access to its memory, its helper has to answer.
Channel meet(const ProtectionDomain& domain, Link& link) {
  auto prepared = require(PreparedChannel::create(
      domain, {.timeout = 60s, .ack_timeout = require(AckTimeout::limited(20))}));
  link.send(encode(prepared.endpoint()));
  auto channel = require(std::move(prepared).connect(require(decode_endpoint(link.receive()))));
  link.barrier();
  return channel;
}

/// Shares a vector, and checks it after the peer has written.
void own_memory(int fd) {
  Link link{fd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  std::vector<std::byte> memory(kBytes);
  fill(memory, 1);
  const SharedRegion shared = require(domain.register_shared(memory, kRemoteAccess));
  const Channel channel = meet(domain, link);
  link.send(encode(shared.remote()));
  link.barrier();
  EXPECT_TRUE(holds(std::span{memory}.subspan(8), 2));
  EXPECT_EQ(shared.load_acquire<std::uint64_t>(0), 5u);
  link.barrier();
}

void use_memory(int fd) {
  Link link{fd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Channel channel = meet(domain, link);
  const auto remote = require(decode_remote_memory(link.receive()));
  Buffer buffer = require(domain.allocate(kBytes));
  require(channel.read(buffer.scatter(), remote));
  EXPECT_TRUE(holds(buffer.bytes(), 1)) << "into a Buffer";
  std::vector<std::byte> ordinary(kBytes);
  const MemoryRegion region = require(domain.register_local(ordinary));
  require(channel.read(region.scatter(ordinary), remote));
  EXPECT_TRUE(holds(ordinary, 1)) << "into ordinary memory";
  auto [back, result] = channel.read(std::move(buffer), remote).wait();
  EXPECT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(back.bytes(), 1)) << "into a Buffer that is given away meanwhile";

  ordinary.assign(kBytes, std::byte{0});
  fill(std::span{ordinary}.subspan(8), 2);
  require(channel.write(region.gather(ordinary), remote));
  require(channel.fetch_add(require(RemoteAtomic::at(remote)), 5));
  link.barrier();
  link.barrier();
}

TEST(PeerMemory, OfOrdinaryKindIsReadWrittenAndCountedIn) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t owner = start_contained([&] {
    ::close(ends[0]);
    own_memory(ends[1]);
  });
  const pid_t user = start_contained([&] {
    ::close(ends[1]);
    use_memory(ends[0]);
  });
  ::close(ends[0]);
  ::close(ends[1]);
  for (const pid_t each : {user, owner}) {
    const int status = status_within(each, 120s);
    EXPECT_EQ(status, 0) << describe_end(status);
  }
}

}  // namespace
}  // namespace verbatim::test
