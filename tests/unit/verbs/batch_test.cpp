// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a batch reaches the device as one list, in order, and owns its elements; it reports exactly
//       what the device did not take.
// Method: the post verbs are replaced by ones that keep what they are given and refuse on demand.
#include "verbatim/verbs/batch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <span>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "support/post_capture.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::test {
namespace {

using unsafe::Posted;
using unsafe::ReceiveBatch;
using unsafe::SendBatch;

class BatchTest : public NullDevice {
 protected:
  void SetUp() override {
    bench.emplace(open());
    buffer.emplace(require(bench->domain.allocate(4096)));
    queue_pair.emplace(bench->connected());
    capture.emplace(unsafe::native(bench->context));
  }
  void TearDown() override {
    capture.reset();
    queue_pair.reset();
    buffer.reset();
    bench.reset();
    NullDevice::TearDown();
  }
  std::vector<std::uint64_t> sent_ids() const {
    std::vector<std::uint64_t> ids;
    for (const auto& each : capture->sends) ids.push_back(each.request.wr_id);
    return ids;
  }

  std::optional<Bench> bench;
  std::optional<Buffer> buffer;
  std::optional<QueuePair> queue_pair;
  std::optional<PostCapture> capture;
};

TEST_F(BatchTest, GoesOutInOneCallInOrder) {
  SendBatch<8> batch{*queue_pair};
  const RemoteMemoryRegion remote{.address = 0x9000, .length = 64, .key = RemoteKey{3}};
  require(batch.add(Send{buffer->gather(0, 1)}, WrId{10}));
  require(batch.add(Write{buffer->gather(0, 2), remote}, WrId{11}));
  require(batch.add(Read{buffer->scatter(0, 3), remote}, WrId{12}));
  require(batch.add(
      FetchAdd{.into = buffer->scatter(0, 8), .at = require(RemoteAtomic::at(remote)), .add = 1},
      WrId{13}));
  require(batch.add(send_immediate(5), WrId{14}));
  EXPECT_EQ(batch.size(), 5u);
  const Posted posted = batch.post();
  EXPECT_TRUE(posted);
  EXPECT_EQ(posted.accepted, 5u);
  EXPECT_EQ(capture->calls, 1u);
  EXPECT_EQ(sent_ids(), (std::vector<std::uint64_t>{10, 11, 12, 13, 14}));
  EXPECT_EQ(capture->sends[1].request.opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(capture->sends[1].request.wr.rdma.remote_addr, 0x9000u);
  EXPECT_EQ(capture->sends[2].request.opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(capture->sends[3].request.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(capture->sends[4].request.opcode, IBV_WR_SEND_WITH_IMM);
}

// What was added is gone when the batch is posted, so the batch must own its elements.
TEST_F(BatchTest, OwnsItsElements) {
  SendBatch<4> batch{*queue_pair};
  const auto base = reinterpret_cast<std::uintptr_t>(buffer->bytes().data());
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<GatherElement> pieces{buffer->gather(i, 1), buffer->gather(100 + i, 2)};
    require(batch.add(Send{std::span<const GatherElement>{pieces}}, WrId{i}));
    pieces.assign({buffer->gather(4000, 3), buffer->gather(4000, 3)});
  }
  EXPECT_TRUE(batch.post());
  ASSERT_EQ(capture->sends.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& elements = capture->sends[i].elements;
    ASSERT_EQ(elements.size(), 2u);
    EXPECT_EQ(elements[0].addr, base + i);
    EXPECT_EQ(elements[0].length, 1u);
    EXPECT_EQ(elements[1].addr, base + 100 + i);
    EXPECT_EQ(elements[1].length, 2u);
  }
}

TEST_F(BatchTest, RefusesWhatDoesNotFit) {
  SendBatch<2, 1> batch{*queue_pair};
  EXPECT_EQ(batch.capacity(), 2u);
  const auto two = batch.add(Send{std::array{buffer->gather(0, 1), buffer->gather(1, 1)}}, WrId{1});
  EXPECT_TRUE(fails_naming(two, Errc::limit_exceeded, "elements", {.value = 2, .limit = 1}));
  EXPECT_EQ(batch.size(), 0u);
  require(batch.add(Send{}, WrId{1}));
  require(batch.add(Send{}, WrId{2}));
  EXPECT_TRUE(fails_naming(batch.add(Send{}, WrId{3}), Errc::limit_exceeded, "requests",
                           {.value = 3, .limit = 2}));
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.post().accepted, 2u);
}

TEST_F(BatchTest, RefusesWhatThePostWouldRefuse) {
  SendBatch<4> batch{*queue_pair};
  EXPECT_TRUE(fails_naming(batch.add(Send{buffer->gather(0, 65), {.inlined = true}}, WrId{1}),
                           Errc::limit_exceeded, "inline bytes", {.value = 65, .limit = 64}));
  const RemoteMemoryRegion small{.address = 0x9000, .length = 4, .key = RemoteKey{3}};
  EXPECT_TRUE(
      fails_with(batch.add(Write{buffer->gather(0, 5), small}, WrId{1}), Errc::limit_exceeded));
  EXPECT_EQ(batch.size(), 0u);
}

TEST_F(BatchTest, TellsHowManyTheDeviceTook) {
  SendBatch<8> batch{*queue_pair};
  for (std::uint64_t id = 0; id < 5; ++id) require(batch.add(Send{}, WrId{id}));
  capture->accept = 3;
  const Posted posted = batch.post();
  EXPECT_FALSE(posted);
  EXPECT_EQ(posted.accepted, 3u);
  ASSERT_TRUE(posted.error);
  EXPECT_EQ(posted.error->code, Errc::would_block);
  EXPECT_STREQ(posted.error->operation, "ibv_post_send");
  EXPECT_EQ(sent_ids(), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(batch.size(), 0u);
}

TEST_F(BatchTest, ARefusalOfTheFirstIsNothingAccepted) {
  SendBatch<8> batch{*queue_pair};
  for (std::uint64_t id = 0; id < 2; ++id) require(batch.add(Send{}, WrId{id}));
  capture->accept = 0;
  capture->refusal = EINVAL;
  for (const bool named : {true, false}) {
    capture->name_rejected = named;
    const Posted posted = batch.post();
    EXPECT_EQ(posted.accepted, 0u);
    ASSERT_TRUE(posted.error);
    EXPECT_EQ(posted.error->code, Errc::invalid_argument);
    EXPECT_EQ(posted.error->os_error, EINVAL);
    require(batch.add(Send{}, WrId{1}));
  }
}

TEST_F(BatchTest, OfNothingPostsNothing) {
  SendBatch<2> batch{*queue_pair};
  const Posted posted = batch.post();
  EXPECT_TRUE(posted);
  EXPECT_EQ(posted.accepted, 0u);
  ReceiveBatch<2> receives;
  EXPECT_TRUE(receives.post(*queue_pair));
  EXPECT_EQ(capture->calls, 0u);
}

TEST_F(BatchTest, CanBeUsedAgain) {
  SendBatch<3> batch{*queue_pair};
  for (std::uint64_t round = 0; round < 3; ++round) {
    capture->sends.clear();
    // Shorter each time: nothing of the last round may remain at the end.
    for (std::uint64_t id = round; id < 3; ++id) require(batch.add(Send{}, WrId{10 * round + id}));
    EXPECT_EQ(batch.post().accepted, 3 - round);
    EXPECT_EQ(capture->sends.size(), 3 - round);
    EXPECT_EQ(capture->sends[0].request.wr_id, 11 * round);
  }
}

TEST_F(BatchTest, CanBeCleared) {
  SendBatch<3> batch{*queue_pair};
  require(batch.add(Send{}, WrId{1}));
  require(batch.add(Send{}, WrId{2}));
  batch.clear();
  EXPECT_EQ(batch.size(), 0u);
  require(batch.add(Send{}, WrId{3}));
  EXPECT_EQ(batch.post().accepted, 1u);
  EXPECT_EQ(sent_ids(), std::vector<std::uint64_t>{3});
}

// ---- Receives

TEST_F(BatchTest, ReceivesGoOutInOneCallInOrder) {
  ReceiveBatch<4> batch;
  const auto base = reinterpret_cast<std::uintptr_t>(buffer->bytes().data());
  for (std::size_t i = 0; i < 3; ++i)
    require(batch.add(Receive{buffer->scatter(i * 10, 10)}, WrId{i}));
  require(batch.add(Receive{}, WrId{3}));
  const Posted posted = batch.post(*queue_pair);
  EXPECT_EQ(posted.accepted, 4u);
  EXPECT_EQ(capture->calls, 1u);
  ASSERT_EQ(capture->receives.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(capture->receives[i].request.wr_id, i);
    ASSERT_EQ(capture->receives[i].elements.size(), 1u);
    EXPECT_EQ(capture->receives[i].elements[0].addr, base + i * 10);
  }
  EXPECT_EQ(capture->receives[3].request.num_sge, 0);
}

TEST_F(BatchTest, ReceivesGoToAnyQueueThatTakesThem) {
  ReceiveBatch<4> batch;
  auto prepared = require(bench->prepare());
  auto shared = require(bench->domain.create_shared_receive_queue({.max_requests = 4}));
  require(batch.add(Receive{}, WrId{1}));
  EXPECT_EQ(batch.post(prepared).accepted, 1u);
  require(batch.add(Receive{}, WrId{2}));
  EXPECT_EQ(batch.post(shared).accepted, 1u);
  EXPECT_EQ(capture->receives.size(), 2u);
}

TEST_F(BatchTest, ReceivesTellHowManyTheDeviceTook) {
  ReceiveBatch<4> batch;
  auto shared = require(bench->domain.create_shared_receive_queue({.max_requests = 4}));
  for (const bool to_shared : {false, true}) {
    for (std::uint64_t id = 0; id < 4; ++id) require(batch.add(Receive{}, WrId{id}));
    capture->accept = 1;
    const Posted posted = to_shared ? batch.post(shared) : batch.post(*queue_pair);
    EXPECT_EQ(posted.accepted, 1u);
    ASSERT_TRUE(posted.error);
    EXPECT_EQ(posted.error->code, Errc::would_block);
    EXPECT_STREQ(posted.error->operation, to_shared ? "ibv_post_srq_recv" : "ibv_post_recv");
  }
}

// A device may answer with the errno of a full queue, or may not check and write beyond its entry.
TEST_F(BatchTest, ReceivesWithMoreElementsThanTheQueueTakesAreRefused) {
  auto narrow =
      require(bench->prepare([](QueuePairOptions& options) { options.max_receive_elements = 2; }));
  auto shared =
      require(bench->domain.create_shared_receive_queue({.max_requests = 4, .max_elements = 2}));
  const auto piece = [&](std::size_t offset) { return buffer->scatter(offset, 1); };
  const auto three = [&] { return Receive{std::array{piece(0), piece(1), piece(2)}}; };
  ReceiveBatch<4> batch;
  for (const bool to_shared : {false, true}) {
    for (std::size_t before = 0; before < 3; ++before) {
      capture->receives.clear();
      for (std::size_t id = 0; id < before; ++id)
        require(batch.add(Receive{std::array{piece(0), piece(1)}}, WrId{id}));
      require(batch.add(three(), WrId{7}));
      require(batch.add(Receive{}, WrId{8}));
      const Posted posted = to_shared ? batch.post(shared) : batch.post(narrow);
      EXPECT_EQ(posted.accepted, before);  // As with any refusal, those before it go.
      EXPECT_EQ(capture->receives.size(), before);
      ASSERT_TRUE(posted.error);
      EXPECT_TRUE(fails_naming(Result<void>{std::unexpected(*posted.error)}, Errc::limit_exceeded,
                               "elements", {.value = 3, .limit = 2}));
      EXPECT_EQ(batch.size(), 0u);
    }
  }
  // The queue that takes three elements gets the same batch, before and afterwards.
  require(batch.add(three(), WrId{7}));
  EXPECT_EQ(batch.post(*queue_pair).accepted, 1u);
}

TEST_F(BatchTest, ReceivesBeforeOneThatIsTooWideMayFailThemselves) {
  auto narrow =
      require(bench->prepare([](QueuePairOptions& options) { options.max_receive_elements = 1; }));
  ReceiveBatch<4> batch;
  require(batch.add(Receive{}, WrId{1}));
  require(batch.add(Receive{}, WrId{2}));
  require(batch.add(Receive{std::array{buffer->scatter(0, 1), buffer->scatter(1, 1)}}, WrId{3}));
  capture->accept = 1;
  const Posted posted = batch.post(narrow);
  EXPECT_EQ(posted.accepted, 1u);
  ASSERT_TRUE(posted.error);
  EXPECT_EQ(posted.error->code, Errc::would_block);
}

TEST_F(BatchTest, ReceivesRefuseWhatDoesNotFit) {
  ReceiveBatch<1, 1> batch;
  const auto two =
      batch.add(Receive{std::array{buffer->scatter(0, 1), buffer->scatter(1, 1)}}, WrId{1});
  EXPECT_TRUE(fails_naming(two, Errc::limit_exceeded, "elements", {.value = 2, .limit = 1}));
  require(batch.add(Receive{}, WrId{1}));
  EXPECT_TRUE(fails_naming(batch.add(Receive{}, WrId{2}), Errc::limit_exceeded, "requests",
                           {.value = 2, .limit = 1}));
}

}  // namespace
}  // namespace verbatim::test
