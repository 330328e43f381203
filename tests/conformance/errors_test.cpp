// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what goes wrong at run time ends with the status that the specification defines, on the
//       side that the specification names; nothing is written that should not be.
// Method: one mistake per test, made by one side; checks the completions of both sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

using std::chrono::milliseconds;

constexpr AccessFlags kReadWrite = Access::remote_read | Access::remote_write;

/// Whether the status is one that the specification allows here.
testing::AssertionResult failed_with(const Completion& found,
                                     std::initializer_list<WorkStatus> allowed) {
  if (std::ranges::count(allowed, found.status()) > 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status: " << to_string(found.status());
}

testing::AssertionResult is_broken(const QueuePair& queue_pair) {
  const bool broken =
      eventually([&] { return require(queue_pair.query_state()) == QueuePairState::error; });
  if (broken) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the queue pair is not in the error state";
}

// ---- The receiver is not ready ------------------------------------------------------------------

TEST(ReceiverNotReady, EndsTheRetriesWhenTheyAreLimited) {
  ConnectedPair pair{{.local = [](QueuePairOptions& options) {
    options.max_rnr_retries = require(MaxRnrRetries::limited(2));
  }}};
  Buffer source = require(pair.domain.allocate(100));
  pair.local.post(Send{source.gather()}, 1);
  const Completion failed = poll_one(pair.local.sends);
  EXPECT_EQ(failed.status(), WorkStatus::rnr_retry_exceeded);
  EXPECT_EQ(failed.id(), WrId{1});
  EXPECT_EQ(failed.queue_pair(), pair.local.queue_pair.number());
  EXPECT_EQ(failed.opcode(), std::nullopt);
  EXPECT_EQ(failed.byte_count(), std::nullopt);
  EXPECT_TRUE(is_broken(pair.local.queue_pair));
}

TEST(ReceiverNotReady, IsWaitedForWhenRetriesAreUnlimited) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(10'000));
  Buffer sink = require(pair.domain.allocate(10'000));
  fill(source.bytes(), test_seed());
  pair.local.post(Send{source.gather()}, 1);
  EXPECT_FALSE(poll_within(pair.local.sends, milliseconds{100}));
  pair.remote.post(Receive{sink.scatter()}, 2);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(succeeded(poll_one(pair.remote.receives)));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

TEST(ReceiverNotReady, HoldsUpAWriteWithImmediateOnly) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(100));
  ExposedMemory target(pair.domain, 100, Access::remote_write);
  fill(source.bytes(), test_seed());
  pair.local.post(Write{source.gather(), target.remote()}, 1);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends))) << "a plain write needs no receive";
  pair.local.post(Write{source.gather(), target.remote(), {.immediate = 1}}, 2);
  EXPECT_FALSE(poll_within(pair.local.sends, milliseconds{50}));
  pair.remote.post(Receive{}, 3);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(succeeded(poll_one(pair.remote.receives)));
}

// ---- The peer does not answer -------------------------------------------------------------------

/// The status of a send to a queue pair that is gone, or nothing if it does not complete in time.
std::optional<WorkStatus> send_to_nobody(unsigned retries, std::chrono::seconds patience) {
  ConnectedPair pair{{.both = [retries](QueuePairOptions& options) {
    options.ack_timeout = require(AckTimeout::at_least(milliseconds{8}));
    options.max_ack_retries = require(MaxAckRetries::limited(retries));
  }}};
  {
    const QueuePair gone = std::move(pair.remote.queue_pair);
  }
  Buffer source = require(pair.domain.allocate(100));
  pair.local.post(Send{source.gather()}, 1);
  const auto failed = poll_within(pair.local.sends, patience);
  if (!failed) return std::nullopt;
  EXPECT_TRUE(is_broken(pair.local.queue_pair));
  return failed->status();
}

TEST(LostPeer, EndsTheRetries) {
  EXPECT_EQ(send_to_nobody(0, kPatience), WorkStatus::retry_exceeded);
  EXPECT_EQ(send_to_nobody(2, kPatience), WorkStatus::retry_exceeded);
}

// Here seven is a count. Only in the other counter, for "receiver not ready", does it mean "for
// ever".
TEST(LostPeer, EndsAlsoSevenRetries) {
  // A device may wait four times as long as requested, eight times: a quarter of a second. Some try
  // for ever, so the test does not wait longer than it must.
  const auto status = send_to_nobody(7, std::chrono::seconds{10});
  ASSERT_TRUE(status) << "the device still tries";
  EXPECT_EQ(*status, WorkStatus::retry_exceeded);
}

// ---- Lengths ------------------------------------------------------------------------------------

TEST(Receive, TooSmallForTheMessageFailsOnBothSides) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(100));
  ScatteredMemory sink(pair.domain, 50, 1, test_seed());
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Send{source.gather()}, 2);
  const Completion received = poll_one(pair.remote.receives);
  EXPECT_EQ(received.status(), WorkStatus::local_length);
  EXPECT_EQ(received.id(), WrId{1});
  EXPECT_TRUE(failed_with(poll_one(pair.local.sends),
                          {WorkStatus::remote_invalid_request, WorkStatus::remote_operation}));
  EXPECT_TRUE(is_broken(pair.local.queue_pair));
  EXPECT_TRUE(is_broken(pair.remote.queue_pair));
}

TEST(Receive, TooSmallForALongMessageIsNotOverrun) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(20'000));
  ScatteredMemory sink(pair.domain, 15'000, 3, test_seed());
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Send{source.gather()}, 2);
  EXPECT_FALSE(poll_one(pair.remote.receives).ok());
  EXPECT_FALSE(poll_one(pair.local.sends).ok());
  // Whatever was written lies inside the pieces. The guards are checked with any content.
  sink.fill(1);
  EXPECT_TRUE(sink.holds(1));
}

TEST(RemoteBounds, AreCheckedBeforeThePost) {
  ConnectedPair pair;
  ExposedMemory target(pair.domain, 50, kReadWrite);
  Buffer buffer = require(pair.domain.allocate(100));
  const auto write =
      unsafe::post(pair.local.queue_pair, Write{buffer.gather(), target.remote()}, WrId{1});
  ASSERT_TRUE(fails_with(write, Errc::limit_exceeded));
  EXPECT_EQ(write.error().value, 100u);
  EXPECT_EQ(write.error().limit, 50u);
  EXPECT_TRUE(fails_with(
      unsafe::post(pair.local.queue_pair, Read{buffer.scatter(), target.remote()}, WrId{2}),
      Errc::limit_exceeded));
  exchange(pair);
}

// ---- Access to remote memory --------------------------------------------------------------------

struct Denial {
  const char* name;
  bool read;             ///< Otherwise a write.
  AccessFlags region;    ///< What the memory allows.
  AccessFlags peer;      ///< What the peer's queue pair allows.
  std::int64_t address;  ///< How far the descriptor's address is off, in bytes.
  std::uint64_t length;  ///< The length in the descriptor.
  std::uint32_t key;     ///< How much the key is off.
};
void PrintTo(const Denial& denial, std::ostream* out) { *out << denial.name; }
std::string denial_name(const testing::TestParamInfo<Denial>& test) { return test.param.name; }

class RemoteAccess : public testing::TestWithParam<Denial> {};

TEST_P(RemoteAccess, IsDenied) {
  const Denial& denial = GetParam();
  ConnectedPair pair{{.remote = [&](QueuePairOptions& options) { options.access = denial.peer; }}};
  Buffer memory = require(pair.domain.allocate(256));
  std::ranges::fill(memory.bytes(), std::byte{1});
  // Only the middle is registered, so a device that does not check finds memory on both sides.
  std::vector<std::byte> exposed(3 * 4096, std::byte{2});
  const MemoryRegion region = require(pair.domain.register_custom(
      std::span{exposed}.subspan(4096, 4096), denial.region | Access::local_write));
  const RemoteMemoryRegion honest{region.address(), region.length(), require(region.remote()).key};
  const RemoteMemoryRegion lie{honest.address + static_cast<std::uint64_t>(denial.address),
                               denial.length,
                               RemoteKey{std::to_underlying(honest.key) ^ denial.key}};
  if (denial.read) {
    pair.local.post(Read{memory.scatter(), lie}, 1);
  } else {
    pair.local.post(Write{memory.gather(), lie}, 1);
  }
  const Completion failed = poll_one(pair.local.sends);
  // A queue pair that does not allow the operation at all may call the request itself invalid.
  const bool by_queue_pair = denial.peer != kReadWrite;
  EXPECT_TRUE(failed_with(failed, by_queue_pair
                                      ? std::initializer_list{WorkStatus::remote_access,
                                                              WorkStatus::remote_invalid_request}
                                      : std::initializer_list{WorkStatus::remote_access}));
  EXPECT_EQ(failed.id(), WrId{1});
  EXPECT_TRUE(is_broken(pair.local.queue_pair));
  EXPECT_TRUE(is_broken(pair.remote.queue_pair));
  EXPECT_TRUE(all_equal(memory.bytes(), std::byte{1}));
  EXPECT_TRUE(all_equal(exposed, std::byte{2}));
}

INSTANTIATE_TEST_SUITE_P(
    All, RemoteAccess,
    testing::Values(Denial{"WriteByRegion", false, Access::remote_read, kReadWrite, 0, 256, 0},
                    Denial{"ReadByRegion", true, Access::remote_write, kReadWrite, 0, 256, 0},
                    Denial{"WriteByQueuePair", false, kReadWrite, Access::remote_read, 0, 256, 0},
                    Denial{"ReadByQueuePair", true, kReadWrite, Access::remote_write, 0, 256, 0},
                    Denial{"WriteByKey", false, kReadWrite, kReadWrite, 0, 256, 0x1},
                    Denial{"ReadByKey", true, kReadWrite, kReadWrite, 0, 256, 0x1},
                    Denial{"WriteByKeyOfNothing", false, kReadWrite, kReadWrite, 0, 256,
                           0x7fff0000},
                    Denial{"WriteByEnd", false, kReadWrite, kReadWrite, 4096 - 255, 256, 0},
                    Denial{"ReadByEnd", true, kReadWrite, kReadWrite, 4096 - 255, 256, 0},
                    Denial{"WriteByStart", false, kReadWrite, kReadWrite, -1, 256, 0},
                    Denial{"ReadByStart", true, kReadWrite, kReadWrite, -1, 256, 0}),
    denial_name);

TEST(RemoteRegion, IsOutOfReachOnceItIsGone) {
  ConnectedPair pair;
  std::optional<ExposedMemory> exposed(std::in_place, pair.domain, 100, kReadWrite);
  const RemoteMemoryRegion remembered = exposed->remote();
  Buffer source = require(pair.domain.allocate(100));
  pair.local.post(Write{source.gather(), remembered}, 1);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  exposed.reset();
  pair.local.post(Write{source.gather(), remembered}, 2);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_access);
}

// ---- Protection domains -------------------------------------------------------------------------

TEST(OtherDomain, MemoryCannotBeSentFrom) {
  ConnectedPair pair;
  const ProtectionDomain other = require(pair.context.allocate_domain());
  Buffer foreign = require(other.allocate(100));
  Buffer sink = require(pair.domain.allocate(100));
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Send{foreign.gather()}, 2);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::local_protection);
  EXPECT_TRUE(is_broken(pair.local.queue_pair));
}

TEST(OtherDomain, MemoryCannotBeReadInto) {
  ConnectedPair pair;
  const ProtectionDomain other = require(pair.context.allocate_domain());
  Buffer foreign = require(other.allocate(100));
  ExposedMemory source(pair.domain, 100, kReadWrite);
  source.fill(test_seed());
  pair.local.post(Read{foreign.scatter(), source.remote()}, 1);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::local_protection);
  EXPECT_TRUE(all_equal(foreign.bytes(), std::byte{0}));
}

TEST(OtherDomain, MemoryCannotBeReceivedInto) {
  ConnectedPair pair;
  const ProtectionDomain other = require(pair.context.allocate_domain());
  Buffer foreign = require(other.allocate(100));
  Buffer source = require(pair.domain.allocate(100));
  fill(source.bytes(), test_seed());
  pair.remote.post(Receive{foreign.scatter()}, 1);
  pair.local.post(Send{source.gather()}, 2);
  EXPECT_EQ(poll_one(pair.remote.receives).status(), WorkStatus::local_protection);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_operation);
  EXPECT_TRUE(all_equal(foreign.bytes(), std::byte{0}));
}

TEST(OtherDomain, MemoryCannotBeReachedByThePeer) {
  ConnectedPair pair;
  const ProtectionDomain other = require(pair.context.allocate_domain());
  ExposedMemory foreign(other, 100, kReadWrite);
  Buffer source = require(pair.domain.allocate(100));
  pair.local.post(Write{source.gather(), foreign.remote()}, 1);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_access);
  EXPECT_TRUE(all_equal(foreign.bytes(), std::byte{0}));
}

// ---- What is left after an error ----------------------------------------------------------------

TEST(Flush, ReturnsWhatWasPostedAfterTheFailureInOrder) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(100));
  ExposedMemory readable(pair.domain, 100, Access::remote_read);
  for (std::uint64_t id = 100; id < 104; ++id) pair.local.post(Receive{}, id);
  for (std::uint64_t id = 200; id < 204; ++id) pair.remote.post(Receive{}, id);
  unsafe::SendBatch<8> batch(pair.local.queue_pair);
  require(batch.add(send_immediate(1), WrId{1}));
  require(batch.add(Write{source.gather(), readable.remote()}, WrId{2}));
  for (std::uint64_t id = 3; id < 7; ++id) require(batch.add(send_immediate(1), WrId{id}));
  ASSERT_TRUE(batch.post());
  EXPECT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, 1));
  const Completion failed = poll_one(pair.local.sends);
  EXPECT_EQ(failed.id(), WrId{2});
  EXPECT_EQ(failed.status(), WorkStatus::remote_access);
  EXPECT_TRUE(flushed_in_order(poll_many(pair.local.sends, 4), 3));
  EXPECT_TRUE(flushed_in_order(poll_many(pair.local.receives, 4), 100));
  EXPECT_TRUE(succeeded_in_order({poll_one(pair.remote.receives)}, 200));
  EXPECT_TRUE(flushed_in_order(poll_many(pair.remote.receives, 3), 201));
}

TEST(Flush, FollowsTheMoveToErrorInOrder) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(100));
  // The peer has no receive, so no send can complete by itself.
  for (std::uint64_t id = 1; id < 9; ++id) pair.local.post(Send{source.gather()}, id);
  for (std::uint64_t id = 100; id < 108; ++id) pair.local.post(Receive{}, id);
  require(pair.local.queue_pair.move_to_error());
  EXPECT_TRUE(flushed_in_order(poll_many(pair.local.sends, 8), 1));
  EXPECT_TRUE(flushed_in_order(poll_many(pair.local.receives, 8), 100));
  EXPECT_TRUE(is_broken(pair.local.queue_pair));
}

TEST(Flush, CoversUnsignaledRequests) {
  ConnectedPair pair;
  for (std::uint64_t id = 1; id < 5; ++id) pair.local.post_unsignaled(Send<0>{}, id);
  require(pair.local.queue_pair.move_to_error());
  EXPECT_TRUE(flushed_in_order(poll_many(pair.local.sends, 4), 1));
}

TEST(AfterAnError, SendIsFlushedOrRefused) {
  ConnectedPair pair;
  require(pair.local.queue_pair.move_to_error());
  if (unsafe::post(pair.local.queue_pair, Send{}, WrId{1})) {
    EXPECT_TRUE(flushed_in_order({poll_one(pair.local.sends)}, 1));
  }
}

TEST(AfterAnError, ReceiveIsFlushedOrRefused) {
  ConnectedPair pair;
  require(pair.local.queue_pair.move_to_error());
  // Several, because a device may still be busy with the move when the first is posted.
  for (std::uint64_t id = 1; id < 5; ++id) {
    if (!unsafe::post(pair.local.queue_pair, Receive{}, WrId{id})) continue;
    const auto found = poll_within(pair.local.receives, std::chrono::seconds{5});
    ASSERT_TRUE(found) << "the receive did not come back";
    EXPECT_TRUE(flushed_in_order({*found}, id));
  }
}

TEST(AfterAnError, MoveToErrorMayBeRepeated) {
  ConnectedPair pair;
  require(pair.local.queue_pair.move_to_error());
  EXPECT_TRUE(succeeds(pair.local.queue_pair.move_to_error()));
}

/// Resets both sides and connects them again.
void reconnect(ConnectedPair& pair) {
  PreparedQueuePair local = require(std::move(pair.local.queue_pair).reset());
  PreparedQueuePair remote = require(std::move(pair.remote.queue_pair).reset());
  const Endpoint local_endpoint = local.endpoint();
  pair.local.queue_pair = require(std::move(local).connect(remote.endpoint()));
  pair.remote.queue_pair = require(std::move(remote).connect(local_endpoint));
}

TEST(Reset, AfterAnErrorMakesANewConnection) {
  ConnectedPair pair;
  const Endpoint before = pair.local.queue_pair.endpoint();
  const std::uint32_t depth = pair.local.queue_pair.limits().max_send_requests;
  for (std::uint64_t id = 0; id < depth; ++id) pair.local.post(Send{}, id);
  require(pair.local.queue_pair.move_to_error());
  EXPECT_TRUE(flushed_in_order(poll_many(pair.local.sends, depth), 0));
  reconnect(pair);
  EXPECT_NE(pair.local.queue_pair.endpoint().nonce, before.nonce);
  EXPECT_EQ(pair.local.queue_pair.number(), before.queue_pair);
  exchange(pair);
}

TEST(Reset, OfASoundConnectionMakesANewOne) {
  ConnectedPair pair;
  for (int round = 0; round < 3; ++round) {
    exchange(pair);
    reconnect(pair);
  }
  exchange(pair);
}

TEST(Reset, ForgetsWhatWasPosted) {
  ConnectedPair pair;
  Buffer memory = require(pair.domain.allocate(100));
  for (std::uint64_t id = 1; id < 5; ++id) pair.local.post(Send{memory.gather()}, id);
  for (std::uint64_t id = 1; id < 5; ++id) pair.local.post(Receive{memory.scatter()}, 100 + id);
  reconnect(pair);
  // If a request were still there, it would be the first to reach its peer.
  exchange(pair);
}

}  // namespace
}  // namespace verbatim::test
