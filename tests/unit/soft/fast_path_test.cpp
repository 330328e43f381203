// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a queue pair remembers about keys and peers never outlives the right to use it.
// Method: two queue pairs of this process; a word is written twice, so that the second write takes
//         the straight path; then something is taken away, and the third must be refused.
#include "soft/requester/fast_path.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "soft/completer/poll.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/memory/registration.hpp"
#include "soft/requester/post.hpp"
#include "support/connected_pair.hpp"

namespace verbatim::engine {
namespace {

using test::require;

constexpr unsigned kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

/// 64 bytes of this process, registered.
class Memory {
 public:
  explicit Memory(const ProtectionDomain& domain, unsigned access = kAll, std::size_t length = 64)
      : region_(register_memory(unsafe::native(domain), bytes.data(), length,
                                reinterpret_cast<std::uintptr_t>(bytes.data()), access)) {}
  ~Memory() { deregister(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void deregister() {
    if (region_ != nullptr) {
      EXPECT_EQ(deregister_memory(region_), 0);
    }
    region_ = nullptr;
  }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
  }
  [[nodiscard]] std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  void set_word(std::size_t offset, std::uint64_t value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }

  std::array<std::byte, 128> bytes{};

 private:
  ibv_mr* region_;
  std::uint32_t key_ = region_->rkey;
};

struct Request {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::uint32_t size = 8;
  std::size_t from = 0;  ///< Offset in our memory,
  std::size_t to = 0;    ///< and in the peer's.
  unsigned flags = IBV_SEND_SIGNALED;
};

class FastPath : public testing::Test {
 protected:
  void post(const Memory& from, const Memory& to, const Request& request, std::uint64_t id = 1) {
    ibv_sge element{from.at(request.from), request.size, from.key()};
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &element;
    work.num_sge = 1;
    work.opcode = request.opcode;
    work.send_flags = request.flags;
    work.wr.rdma.remote_addr = to.at(request.to);
    work.wr.rdma.rkey = to.key();
    ibv_send_wr* rejected = nullptr;
    ASSERT_EQ(post_send(near, &work, &rejected), 0);
  }
  /// Posts it and returns the status of its completion.
  ibv_wc_status run(const Memory& from, const Memory& to, const Request& request = {},
                    std::uint64_t id = 1) {
    post(from, to, request, id);
    ibv_wc done{};
    EXPECT_TRUE(test::eventually([&] { return poll(near->send_cq, 1, &done) == 1; }));
    EXPECT_EQ(done.wr_id, id);
    return done.status;
  }
  /// Runs the request twice: the second uses what the first taught.
  void learn_road(const Memory& from, const Memory& to, const Request& request = {}) {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(run(from, to, request), IBV_WC_SUCCESS);
    ASSERT_EQ(QueuePair::of(near).known.own_changes, own_changes.load()) << "nothing was learnt";
  }

  /// A request that waits for its peer waits for ever, however long the test is held up meanwhile.
  test::ConnectedPair pair{
      {.both = [](QueuePairOptions& options) { options.ack_timeout = AckTimeout::unlimited(); }}};
  ibv_qp* near = unsafe::native(pair.local.queue_pair);
  ibv_qp* far = unsafe::native(pair.remote.queue_pair);
  Memory here{pair.domain};
  Memory there{pair.domain};
};

TEST_F(FastPath, WordArrivesWhereverItLies) {
  for (const std::size_t offset : {0u, 1u, 8u, 31u, 55u, 56u}) {
    here.set_word(offset, 0x1122334455667700 + offset);
    learn_road(here, there, {.from = offset, .to = offset});
    EXPECT_EQ(there.word(offset), 0x1122334455667700 + offset);
  }
}

TEST_F(FastPath, EveryLengthArrives) {
  for (std::uint32_t size = 1; size <= 64; ++size) {
    here.bytes.fill(std::byte{static_cast<unsigned char>(size)});
    there.bytes.fill(std::byte{});
    learn_road(here, there, {.size = size});
    EXPECT_EQ(std::memcmp(here.bytes.data(), there.bytes.data(), size), 0);
    EXPECT_EQ(there.bytes[size], std::byte{}) << size;
  }
}

TEST_F(FastPath, ReadsComeTheOtherWay) {
  there.set_word(16, 77);
  learn_road(here, there, {.opcode = IBV_WR_RDMA_READ, .from = 8, .to = 16});
  EXPECT_EQ(here.word(8), 77u);
}

TEST_F(FastPath, InlineDataNeedsNoKey) {
  here.set_word(0, 5);
  learn_road(here, there, {.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE});
  here.deregister();
  here.set_word(0, 6);
  EXPECT_EQ(run(here, there, {.flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}), IBV_WC_SUCCESS);
  EXPECT_EQ(there.word(0), 6u);
}

TEST_F(FastPath, OneByteTooFarIsRefusedOnEitherSide) {
  learn_road(here, there);
  EXPECT_EQ(run(here, there, {.from = 57}), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(there.word(57), 0u);
}

TEST_F(FastPath, OneByteTooFarAtThePeerIsRefused) {
  learn_road(here, there);
  EXPECT_EQ(run(here, there, {.to = 57}), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FastPath, OneByteBeforeIsRefused) {
  learn_road(here, there);
  EXPECT_EQ(run(here, there, {.to = ~std::size_t{0}}), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FastPath, DeregisteredAtThePeer) {
  learn_road(here, there);
  there.deregister();
  here.set_word(0, 9);
  EXPECT_EQ(run(here, there), IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(there.word(0), 9u);
}

TEST_F(FastPath, DeregisteredHere) {
  learn_road(here, there);
  here.deregister();
  EXPECT_EQ(run(here, there), IBV_WC_LOC_PROT_ERR);
}

TEST_F(FastPath, RightTakenFromThePeersQueuePair) {
  learn_road(here, there);
  ibv_qp_attr attributes{};
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  ASSERT_EQ(modify_queue_pair(far, &attributes, IBV_QP_ACCESS_FLAGS), 0);
  EXPECT_EQ(run(here, there), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FastPath, RightToWriteIsNotTheRightToRead) {
  Memory written{pair.domain, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
  learn_road(here, written);
  EXPECT_EQ(run(here, written, {.opcode = IBV_WR_RDMA_READ}), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(FastPath, ReadDoesNotFillMemoryThatIsOnlyRead) {
  Memory source{pair.domain, IBV_ACCESS_REMOTE_READ};
  learn_road(source, there);
  EXPECT_EQ(run(source, there, {.opcode = IBV_WR_RDMA_READ}), IBV_WC_LOC_PROT_ERR);
}

TEST_F(FastPath, PeersQueuePairInErrorTakesNothing) {
  learn_road(here, there);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(modify_queue_pair(far, &attributes, IBV_QP_STATE), 0);
  here.set_word(0, 10);
  post(here, there, {});
  ibv_wc done{};
  EXPECT_EQ(poll(near->send_cq, 1, &done), 0);  // It is retried, not done.
  EXPECT_NE(there.word(0), 10u);
}

TEST_F(FastPath, OwnQueuePairInErrorFlushes) {
  learn_road(here, there);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(modify_queue_pair(near, &attributes, IBV_QP_STATE), 0);
  EXPECT_EQ(run(here, there), IBV_WC_WR_FLUSH_ERR);
}

TEST_F(FastPath, WaitingRequestIsNotOvertaken) {
  learn_road(here, there);
  ibv_sge element{here.at(0), 8, here.key()};
  ibv_send_wr send{};
  send.wr_id = 1;
  send.sg_list = &element;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* rejected = nullptr;
  ASSERT_EQ(post_send(near, &send, &rejected), 0);  // Nobody has a receive for it.
  here.set_word(8, 11);
  post(here, there, {.from = 8, .to = 8}, 2);
  EXPECT_NE(there.word(8), 11u);
  ibv_wc done{};
  EXPECT_EQ(poll(near->send_cq, 1, &done), 0);
}

TEST_F(FastPath, FullQueueRefuses) {
  learn_road(here, there);
  for (int i = 0; i < 16; ++i) post(here, there, {});
  ibv_sge element{here.at(0), 8, here.key()};
  ibv_send_wr work{};
  work.sg_list = &element;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.wr.rdma = {there.at(0), there.key()};
  ibv_send_wr* rejected = nullptr;
  EXPECT_EQ(post_send(near, &work, &rejected), ENOMEM);
  EXPECT_EQ(rejected, &work);
}

TEST_F(FastPath, ManyRegionsShareThePlacesAndAreNotConfused) {
  std::vector<std::unique_ptr<Memory>> many;
  for (int i = 0; i < 20; ++i) many.push_back(std::make_unique<Memory>(pair.domain));
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (std::uint64_t i = 0; i < many.size(); ++i) {
      here.set_word(0, round * 100 + i);
      ASSERT_EQ(run(here, *many[i]), IBV_WC_SUCCESS);
      ASSERT_EQ(many[i]->word(0), round * 100 + i);
    }
  }
}

TEST_F(FastPath, RegionShorterThanAWord) {
  Memory tiny{pair.domain, kAll, 4};
  here.set_word(0, ~std::uint64_t{0});
  learn_road(here, tiny, {.size = 4});
  EXPECT_EQ(tiny.word(0), 0xffffffffu);
  EXPECT_EQ(run(here, tiny), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(tiny.word(0), 0xffffffffu);
}

TEST_F(FastPath, PlaceOfAFailureServesASuccessAgain) {
  // A success does not write a whole place in the ring of completions.
  EXPECT_EQ(run(here, there, {.to = 100}), IBV_WC_REM_ACCESS_ERR);
  test::ConnectedPair other{pair.domain, {.local = [&](QueuePairOptions& options) {
                              options.send_completions = pair.local.sends;
                            }}};
  near = unsafe::native(other.local.queue_pair);
  const std::uint32_t capacity = CompletionQueue::of(near->send_cq).capacity;
  for (std::uint32_t i = 0; i <= capacity; ++i) ASSERT_EQ(run(here, there), IBV_WC_SUCCESS) << i;
}

}  // namespace
}  // namespace verbatim::engine
