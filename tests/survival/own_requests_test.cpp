// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the local memory of a request is not touched after its registration has ended, even if the
//       request was running then.
// Method: a page of the local memory has no rights. The handler of the fault, inside the copy,
//         keeps the request there while another thread deregisters the memory. An "again" request
//         is like one before it, and takes the fast path.
// Covers: soft/own_requests.cpp
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "support/connected_pair.hpp"
#include "survival/process.hpp"
#include "survival/raw_region.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kUsedPage = 4096;
constexpr std::size_t kUsedBytes = 4 * kUsedPage;

std::byte* closed_page = nullptr;
std::atomic<bool> is_inside{false};
std::atomic<bool> may_go_on{false};

void stay_inside(int) {
  is_inside = true;
  while (!may_go_on) sched_yield();
  mprotect(closed_page, kUsedPage, PROT_READ | PROT_WRITE);
}

struct UsedCase {
  ibv_wr_opcode opcode;
  bool again;
};

class OwnRequest : public testing::TestWithParam<UsedCase> {
 protected:
  OwnRequest() {
    struct sigaction action{};
    action.sa_handler = &stay_inside;
    sigaction(SIGSEGV, &action, &before_);
    is_inside = may_go_on = false;
  }
  ~OwnRequest() override { sigaction(SIGSEGV, &before_, nullptr); }

  void post() {
    ibv_sge element{reinterpret_cast<std::uintptr_t>(here.bytes().data()), kUsedBytes, here.key()};
    ibv_send_wr request{};
    ibv_send_wr* rejected = nullptr;
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = GetParam().opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = there.remote().address;
    request.wr.rdma.rkey = std::to_underlying(there.remote().key);
    ibv_qp* const queue_pair = unsafe::native(pair.local.queue_pair);
    ASSERT_EQ(queue_pair->context->ops.post_send(queue_pair, &request, &rejected), 0);
  }

  const SoftDirectory directory;
  ConnectedPair pair;
  RawRegion here{pair.domain, kUsedBytes};
  RawRegion there{pair.domain, kUsedBytes};

 private:
  struct sigaction before_{};
};

TEST_P(OwnRequest, KeepsItsLocalMemoryUntilItHasRun) {
  if (GetParam().again) {
    post();
    poll_ok(pair.local.sends);
  }
  closed_page = here.bytes().data() + kUsedPage;
  ASSERT_EQ(mprotect(closed_page, kUsedPage, PROT_NONE), 0);
  std::thread poster{[this] { post(); }};
  EXPECT_TRUE(eventually([] { return is_inside.load(); }, 10s));
  std::atomic<bool> is_taken{false};
  int result = -1;
  std::thread taker{[&] {
    result = here.deregister();
    is_taken = true;
  }};
  EXPECT_FALSE(eventually([&] { return is_taken.load(); }, 200ms))
      << "the memory was given back while a request used it";
  // Nobody else waits for the request.
  std::atomic<bool> is_destroyed{false};
  std::thread bystander{[&] {
    {
      const ConnectedPair other;
    }
    is_destroyed = true;
  }};
  EXPECT_TRUE(eventually([&] { return is_destroyed.load(); }, 10s));
  may_go_on = true;
  poster.join();
  taker.join();
  bystander.join();
  EXPECT_EQ(result, 0);
  poll_ok(pair.local.sends);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OwnRequest,
                         testing::Values(UsedCase{IBV_WR_RDMA_READ, false},
                                         UsedCase{IBV_WR_RDMA_READ, true},
                                         UsedCase{IBV_WR_RDMA_WRITE, false},
                                         UsedCase{IBV_WR_RDMA_WRITE, true}),
                         [](const auto& each) {
                           const UsedCase& which = each.param;
                           return std::string{which.opcode == IBV_WR_RDMA_READ ? "Read" : "Write"} +
                                  (which.again ? "Again" : "First");
                         });

}  // namespace
}  // namespace verbatim::test
