// SPDX-License-Identifier: MIT OR Apache-2.0
// What if the n-th call of the driver fails, for every n? Nothing leaks, and the caller gets the
// error.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "providers/faulty.hpp"
#include "providers/null.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim {
namespace {

/// Creates one of each object, and posts and polls once. All of it is gone when this returns.
Result<void> use_everything(const Provider& provider,
                            std::optional<std::uint32_t> inline_bytes = {}) {
  const auto devices = VERBATIM_TRY(list_devices(provider));
  if (devices.empty()) return std::unexpected(Error{.code = Errc::not_found});
  // Manual: with a thread, the order of calls would vary.
  const auto context = VERBATIM_TRY(devices[0].open({.events = EventDelivery::manual}));
  const auto domain = VERBATIM_TRY(context.allocate_domain());
  const auto buffer = VERBATIM_TRY(domain.allocate(4096));
  const auto shared = VERBATIM_TRY(domain.allocate_shared(4096, Access::remote_write));
  const auto channel = VERBATIM_TRY(context.create_completion_channel());
  auto queue = VERBATIM_TRY(context.create_completion_queue({.depth = 64, .channel = channel}));
  const auto receives = VERBATIM_TRY(domain.create_shared_receive_queue({.max_requests = 16}));
  auto prepared = VERBATIM_TRY(QueuePair::prepare({.domain = domain,
                                                   .send_completions = queue,
                                                   .receive_completions = queue,
                                                   .access = Access::remote_write,
                                                   .shared_receive_queue = receives,
                                                   .max_send_requests = 16,
                                                   .max_inline_bytes = inline_bytes}));
  const Endpoint self = prepared.endpoint();
  auto connected = VERBATIM_TRY(std::move(prepared).connect(self));
  const auto handle = VERBATIM_TRY(connected.address_handle(self));

  if (auto posted = unsafe::post(connected, Send{buffer.gather(0, 8)}, WrId{1}); !posted)
    return posted;
  std::array<Completion, 1> done;
  const auto count = VERBATIM_TRY(queue.wait(done, std::chrono::seconds{10}));
  if (count != 1 || !done[0].ok()) return std::unexpected(Error{.code = Errc::device_failed});
  return connected.move_to_error();
}

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    verbatim_null_knobs() = {};
    ASSERT_EQ(verbatim_null_live_objects(), 0);
  }
  void TearDown() override { faulty::reset(); }

  const Provider& provider = faulty::install(*verbatim_null_provider());
};

TEST_F(Faults, WithoutAnyEverythingWorksAndIsFreed) {
  const auto result = use_everything(provider);
  EXPECT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(verbatim_null_live_objects(), 0);
  EXPECT_EQ(faulty::calls("create_qp"), 1u);
  EXPECT_EQ(faulty::calls("destroy_qp"), 1u);
}

TEST_F(Faults, OfAnyCallLeakNothingAndAreReported) {
  constexpr std::size_t kTooMany = 1000;
  std::size_t number = 0;
  std::size_t reported = 0;
  for (; number < kTooMany; ++number) {
    faulty::reset();
    faulty::fail_any(number, EIO);
    const auto result = use_everything(provider);
    const std::string_view verb = faulty::failed_verb();
    ASSERT_EQ(verbatim_null_live_objects(), 0) << "call " << number << ", " << verb;
    if (verb.empty()) break;  // There are no more calls: all were tried.
    if (result) continue;     // A destructor's call, or one that is not needed.
    ++reported;
    EXPECT_EQ(result.error().os_error, EIO) << verb << ": " << to_string(result.error());
    EXPECT_STRNE(result.error().operation, "") << verb;
  }
  EXPECT_LT(number, kTooMany);
  EXPECT_GE(reported, 15u);
}

struct Fault {
  const char* verb;
  int error;
  Errc expected;
};

class FaultOf : public Faults, public testing::WithParamInterface<Fault> {};

TEST_P(FaultOf, IsTheErrorThatTheCallerGets) {
  faulty::fail_call(GetParam().verb, 0, GetParam().error);
  // No inline data, because the library retries without it if the default is refused.
  const auto result = use_everything(provider, 0);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, GetParam().expected) << to_string(result.error());
  EXPECT_EQ(result.error().os_error, GetParam().error);
  EXPECT_EQ(faulty::failed_verb(), GetParam().verb);
  EXPECT_EQ(verbatim_null_live_objects(), 0);
}

INSTANTIATE_TEST_SUITE_P(Verbs, FaultOf,
                         testing::Values(Fault{"open_device", EACCES, Errc::permission_denied},
                                         Fault{"query_device", EIO, Errc::driver},
                                         Fault{"alloc_pd", ENOMEM, Errc::out_of_resources},
                                         Fault{"alloc_memory", ENOMEM, Errc::out_of_resources},
                                         Fault{"reg_mr", ENOMEM, Errc::out_of_resources},
                                         Fault{"create_comp_channel", EMFILE,
                                               Errc::out_of_resources},
                                         Fault{"create_cq", ENOMEM, Errc::out_of_resources},
                                         Fault{"create_srq", ENOMEM, Errc::out_of_resources},
                                         Fault{"create_qp", ENOMEM, Errc::out_of_resources},
                                         Fault{"modify_qp", EINVAL, Errc::invalid_argument},
                                         Fault{"create_ah", ENOMEM, Errc::out_of_resources}),
                         [](const auto& fault) { return std::string{fault.param.verb}; });

/// A verb that destroys is not called twice, and the objects after it are destroyed, too.
TEST_F(Faults, OfDestructionLeaveTheRestToBeDestroyed) {
  for (const char* verb :
       {"destroy_qp", "destroy_ah", "destroy_srq", "destroy_cq", "destroy_comp_channel", "dereg_mr",
        "free_memory", "dealloc_pd", "close_device"}) {
    faulty::reset();
    faulty::fail_call(verb, 0, EIO);
    const auto result = use_everything(provider);
    EXPECT_TRUE(result) << verb << ": " << to_string(result.error());
    EXPECT_EQ(faulty::failed_verb(), verb);
    EXPECT_EQ(faulty::calls("close_device"), 1u);
    ASSERT_EQ(verbatim_null_live_objects(), 0) << verb;
  }
}

}  // namespace
}  // namespace verbatim
