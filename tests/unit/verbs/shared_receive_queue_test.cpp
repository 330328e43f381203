// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a shared receive queue is as deep as the device made it, refuses what does not fit with
//       name and numbers, and reports when it runs low.
// Method: the null provider with small limits.
#include "verbatim/verbs/shared_receive_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <optional>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

class SharedReceiveQueueTest : public NullDevice {
 protected:
  ProtectionDomain domain() { return require(open().allocate_domain()); }
};

TEST_F(SharedReceiveQueueTest, IsAsTheDeviceMadeIt) {
  knobs.extra_depth = 3;
  const auto queue =
      require(domain().create_shared_receive_queue({.max_requests = 10, .max_elements = 2}));
  EXPECT_EQ(queue.max_requests(), 13u);
  EXPECT_EQ(queue.max_elements(), 2u);
  EXPECT_EQ(queue.events(), EventFlags{});
  EXPECT_EQ(require(domain().create_shared_receive_queue({.max_requests = 1})).max_elements(), 4u);
}

TEST_F(SharedReceiveQueueTest, RefusesWhatDoesNotFit) {
  knobs.device.max_srq_wr = 100;
  knobs.device.max_srq_sge = 5;
  const ProtectionDomain here = domain();
  const auto make = [&](std::uint32_t requests, std::uint32_t elements) {
    return here.create_shared_receive_queue({.max_requests = requests, .max_elements = elements});
  };
  EXPECT_TRUE(
      fails_naming(make(0, 1), Errc::invalid_argument, "max_requests", {.value = 0, .limit = 100}));
  EXPECT_TRUE(fails_naming(make(101, 1), Errc::limit_exceeded, "max_requests",
                           {.value = 101, .limit = 100}));
  EXPECT_TRUE(
      fails_naming(make(1, 0), Errc::invalid_argument, "max_elements", {.value = 0, .limit = 5}));
  EXPECT_TRUE(
      fails_naming(make(1, 6), Errc::limit_exceeded, "max_elements", {.value = 6, .limit = 5}));
  EXPECT_TRUE(succeeds(make(100, 5)));
}

TEST_F(SharedReceiveQueueTest, IsUnsupportedWhereTheDeviceHasNone) {
  knobs.device.max_srq = 0;
  EXPECT_TRUE(fails_naming(domain().create_shared_receive_queue({.max_requests = 1}),
                           Errc::unsupported, "shared receive queue"));
}

TEST_F(SharedReceiveQueueTest, ThatTheDeviceRefusesKeepsTheErrno) {
  table.create_srq = [](ibv_pd*, ibv_srq_init_attr*) -> ibv_srq* {
    errno = ENOMEM;
    return nullptr;
  };
  const auto queue = domain().create_shared_receive_queue({.max_requests = 1});
  ASSERT_TRUE(fails_with(queue, Errc::out_of_resources));
  EXPECT_EQ(queue.error().os_error, ENOMEM);
}

TEST_F(SharedReceiveQueueTest, LimitIsArmedAndAsked) {
  const auto queue = require(domain().create_shared_receive_queue({.max_requests = 10}));
  EXPECT_EQ(require(queue.limit()), 0u);
  require(queue.arm_limit(4));
  EXPECT_EQ(require(queue.limit()), 4u);
  require(queue.arm_limit(10));
  EXPECT_TRUE(
      fails_naming(queue.arm_limit(11), Errc::limit_exceeded, "limit", {.value = 11, .limit = 10}));
  EXPECT_EQ(require(queue.limit()), 10u);
}

TEST_F(SharedReceiveQueueTest, LimitThatTheDeviceRefusesKeepsTheErrno) {
  table.modify_srq = [](ibv_srq*, ibv_srq_attr*, int mask) {
    return mask == IBV_SRQ_LIMIT ? EOPNOTSUPP : EINVAL;
  };
  table.query_srq = [](ibv_srq*, ibv_srq_attr*) {
    errno = EIO;
    return -1;
  };
  const auto queue = require(domain().create_shared_receive_queue({.max_requests = 10}));
  EXPECT_TRUE(fails_with(queue.arm_limit(4), Errc::unsupported));
  const auto limit = queue.limit();
  ASSERT_TRUE(fails_with(limit, Errc::driver));
  EXPECT_EQ(limit.error().os_error, EIO);
}

TEST_F(SharedReceiveQueueTest, TakesReceivesUntilItIsFull) {
  const ProtectionDomain here = domain();
  Buffer buffer = require(here.allocate(100));
  auto queue = require(here.create_shared_receive_queue({.max_requests = 2, .max_elements = 1}));
  EXPECT_TRUE(succeeds(unsafe::post(queue, Receive{buffer.scatter()}, WrId{1})));
  EXPECT_TRUE(succeeds(unsafe::post(queue, Receive{}, WrId{2})));
  EXPECT_TRUE(fails_with(unsafe::post(queue, Receive{}, WrId{3}), Errc::would_block));
  const auto two = unsafe::post(
      queue, Receive{std::array{buffer.scatter(0, 10), buffer.scatter(10, 10)}}, WrId{4});
  EXPECT_TRUE(fails_naming(two, Errc::limit_exceeded, "elements", {.value = 2, .limit = 1}));
}

TEST_F(SharedReceiveQueueTest, LivesAsLongAsAQueuePairUsesIt) {
  const Bench bench(open());
  std::optional<SharedReceiveQueue> queue =
      require(bench.domain.create_shared_receive_queue({.max_requests = 8}));
  std::optional<PreparedQueuePair> prepared = require(
      bench.prepare([&](QueuePairOptions& options) { options.shared_receive_queue = *queue; }));
  const int before = live();
  queue.reset();
  EXPECT_EQ(live(), before);
  prepared.reset();
  EXPECT_EQ(live(), before - 2);
}

}  // namespace
}  // namespace verbatim::test
