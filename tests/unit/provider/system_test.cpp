// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a program runs wherever it is started: without libibverbs, with an old one, with any. What
//       is missing fails when it is used, with one clear error.
// Method: new processes that load no library, the machine's own, or a fake one with the null
//         provider's devices.
#include "verbatim/provider/system.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

#include "providers/fake_libibverbs.hpp"
#include "providers/null.hpp"
#include "support/fake_root.hpp"
#include "support/fresh_process.hpp"
#include "support/named_error.hpp"
#include "support/require.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/verbs/batch.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/device.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::test {
namespace {

// Calling a function through a pointer of another type is undefined, however similar the two look:
// __be64 is `unsigned long long`, std::uint64_t is `unsigned long`. dlvsym() hides this from the
// compiler, so here the declarations are compared with the table.
template <auto Slot, class Exported>
constexpr bool kFits =
    std::same_as<std::remove_reference_t<decltype(std::declval<Provider>().*Slot)>, Exported>;
static_assert(kFits<&Provider::get_device_list, decltype(&ibv_get_device_list)>);
static_assert(kFits<&Provider::free_device_list, decltype(&ibv_free_device_list)>);
static_assert(kFits<&Provider::get_device_guid, decltype(&ibv_get_device_guid)>);
static_assert(kFits<&Provider::open_device, decltype(&ibv_open_device)>);
static_assert(kFits<&Provider::close_device, decltype(&ibv_close_device)>);
static_assert(kFits<&Provider::query_pkey, decltype(&ibv_query_pkey)>);
static_assert(kFits<&Provider::get_async_event, decltype(&ibv_get_async_event)>);
static_assert(kFits<&Provider::ack_async_event, decltype(&ibv_ack_async_event)>);
static_assert(kFits<&Provider::alloc_pd, decltype(&ibv_alloc_pd)>);
static_assert(kFits<&Provider::dealloc_pd, decltype(&ibv_dealloc_pd)>);
static_assert(kFits<&Provider::reg_dmabuf_mr, decltype(&ibv_reg_dmabuf_mr)>);
static_assert(kFits<&Provider::rereg_mr, decltype(&ibv_rereg_mr)>);
static_assert(kFits<&Provider::dereg_mr, decltype(&ibv_dereg_mr)>);
static_assert(kFits<&Provider::create_comp_channel, decltype(&ibv_create_comp_channel)>);
static_assert(kFits<&Provider::destroy_comp_channel, decltype(&ibv_destroy_comp_channel)>);
static_assert(kFits<&Provider::get_cq_event, decltype(&ibv_get_cq_event)>);
static_assert(kFits<&Provider::ack_cq_events, decltype(&ibv_ack_cq_events)>);
static_assert(kFits<&Provider::create_cq, decltype(&ibv_create_cq)>);
static_assert(kFits<&Provider::resize_cq, decltype(&ibv_resize_cq)>);
static_assert(kFits<&Provider::destroy_cq, decltype(&ibv_destroy_cq)>);
static_assert(kFits<&Provider::create_qp, decltype(&ibv_create_qp)>);
static_assert(kFits<&Provider::modify_qp, decltype(&ibv_modify_qp)>);
static_assert(kFits<&Provider::query_qp, decltype(&ibv_query_qp)>);
static_assert(kFits<&Provider::query_qp_data_in_order, decltype(&ibv_query_qp_data_in_order)>);
static_assert(kFits<&Provider::destroy_qp, decltype(&ibv_destroy_qp)>);
static_assert(kFits<&Provider::create_srq, decltype(&ibv_create_srq)>);
static_assert(kFits<&Provider::modify_srq, decltype(&ibv_modify_srq)>);
static_assert(kFits<&Provider::query_srq, decltype(&ibv_query_srq)>);
static_assert(kFits<&Provider::destroy_srq, decltype(&ibv_destroy_srq)>);
static_assert(kFits<&Provider::create_ah, decltype(&ibv_create_ah)>);
static_assert(kFits<&Provider::destroy_ah, decltype(&ibv_destroy_ah)>);

constexpr const char* kNowhere = "/nonexistent/libibverbs.so.1";

TEST(WithoutLibibverbs, ThereAreNoDevicesAndThatIsNoError) {
  in_fresh_process(kNowhere, [] {
    const auto devices = list_devices();
    ASSERT_TRUE(succeeds(devices));
    EXPECT_TRUE(devices->empty());
    EXPECT_NE(system_provider().unavailable(), nullptr);
  });
}

TEST(WithoutLibibverbs, OpeningADeviceNamesLibraryAndDevice) {
  in_fresh_process(kNowhere, [] {
    const auto context = open_device("mlx5_0");
    ASSERT_TRUE(fails_with(context, Errc::not_found));
    EXPECT_NE(std::string_view{context.error().field}.find("libibverbs"), std::string_view::npos);
    EXPECT_EQ(context.error().text_view(), "mlx5_0");
    const std::string line = to_string(context.error());
    EXPECT_NE(line.find("libibverbs"), std::string::npos) << line;
    EXPECT_NE(line.find("mlx5_0"), std::string::npos) << line;
  });
}

TEST(WithoutLibibverbs, OpeningAnyDeviceNamesTheLibrary) {
  in_fresh_process(kNowhere, [] {
    unsetenv("VERBATIM_DEVICE");
    EXPECT_TRUE(fails_naming(open_device(), Errc::not_found, "libibverbs"));
  });
}

TEST(WithoutLibibverbs, TheExplanationSaysMoreThanTheError) {
  in_fresh_process(kNowhere, [] {
    const auto context = open_device("mlx5_0");
    ASSERT_FALSE(context);
    const std::string text = explain(context.error());
    EXPECT_TRUE(text.starts_with(to_string(context.error()))) << text;
    EXPECT_NE(text.find("\n  - "), std::string::npos) << text;
    EXPECT_NE(text.find("VERBATIM_LIBIBVERBS"), std::string::npos) << text;
  });
}

TEST(WithoutLibibverbs, EveryVerbIsThereAndFailsWithEopnotsupp) {
  in_fresh_process(kNowhere, [] {
    const Provider& table = system_provider();
    EXPECT_EQ(table.alloc_pd(nullptr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(table.modify_qp(nullptr, nullptr, 0), EOPNOTSUPP);
    EXPECT_EQ(table.query_device(nullptr, nullptr), EOPNOTSUPP);
  });
}

TEST(WithMachinesLibibverbs, ListingDevicesWorks) {
  in_fresh_process("libibverbs.so.1", [] {
    if (system_provider().unavailable() != nullptr) return;  // Not installed: tested above.
    const auto devices = list_devices();
    ASSERT_TRUE(succeeds(devices));
    for (const Device& device : *devices) EXPECT_FALSE(device.name().empty());
  });
}

TEST(WithMachinesLibibverbs, AnUnknownNameIsNamed) {
  in_fresh_process("libibverbs.so.1", [] {
    const auto context = open_device("no such device");
    ASSERT_TRUE(fails_with(context, Errc::not_found));
    EXPECT_EQ(context.error().text_view(), "no such device");
  });
}

// A verb that a table does not have is missing: the defaults of the structure.
TEST(MissingVerb, FailsByTheConventionOfEachVerb) {
  const Provider table{};
  errno = 0;
  EXPECT_EQ(table.create_qp(nullptr, nullptr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(table.destroy_qp(nullptr), EOPNOTSUPP);
  EXPECT_EQ(table.alloc_memory(nullptr, 1, HugePages::off), nullptr);
  table.ack_async_event(nullptr);  // Returns nothing.
  EXPECT_EQ(table.unavailable(), nullptr);
  EXPECT_EQ(table.transport(nullptr), Transport::hardware);
  EXPECT_EQ(table.fabric_id(nullptr), 0u);
  EXPECT_EQ(table.query_qp_data_in_order(nullptr, IBV_WR_RDMA_WRITE, 0), 0);
}

// ---- A library that is fully known --------------------------------------------------------------

template <class Body>
void with_fake(Body body) {
  in_fresh_process(VERBATIM_FAKE_LIBIBVERBS, body);
}

TEST(WithFakeLibibverbs, DevicesAreListedAndOpened) {
  with_fake([] {
    EXPECT_EQ(system_provider().unavailable(), nullptr);
    const Context context = require(open_device("null0"));
    EXPECT_EQ(context.name(), "null0");
    EXPECT_EQ(context.capabilities().max_requests, 4096u);
    EXPECT_EQ(require(context.query_port(1)).lid, Lid{1});
    EXPECT_EQ(require(context.query_gid_table(1)).size(), 1u);
    EXPECT_EQ(require(context.query_partition_keys(1)).size(), 1u);
  });
}

TEST(WithFakeLibibverbs, AQueuePairConnects) {
  with_fake([] {
    const Context context = require(open_device("null0"));
    const ProtectionDomain domain = require(context.allocate_domain());
    Buffer buffer = require(domain.allocate(100));
    const CompletionQueue queue = require(context.create_completion_queue({.depth = 256}));
    auto prepared = require(QueuePair::prepare({.domain = domain,
                                                .send_completions = queue,
                                                .receive_completions = queue,
                                                .access = Access::remote_write}));
    const Endpoint self = prepared.endpoint();
    const QueuePair connected = require(std::move(prepared).connect(self));
    EXPECT_EQ(require(connected.query_state()), QueuePairState::ready_to_send);
    EXPECT_FALSE(connected.writes_in_order());  // The library lacks the call.
  });
}

TEST(WithFakeLibibverbs, WhatTheLibraryLacksIsUnsupported) {
  with_fake([] {
    const Context context = require(open_device("null0"));
    const ProtectionDomain domain = require(context.allocate_domain());
    CompletionQueue queue = require(context.create_completion_queue({.depth = 16}));
    EXPECT_TRUE(fails_with(context.create_completion_channel(), Errc::unsupported));
    EXPECT_TRUE(fails_with(queue.resize(32), Errc::unsupported));
    EXPECT_TRUE(fails_with(domain.register_dmabuf({.fd = 3, .length = 4096}), Errc::unsupported));
    EXPECT_TRUE(
        fails_with(domain.create_shared_receive_queue({.max_requests = 4}), Errc::unsupported));
  });
}

unsigned registered_access = 0;

TEST(WithFakeLibibverbs, OptionalFlagsReachTheNewerRegistration) {
  with_fake([] {
    fake_table().reg_mr = [](ibv_pd* domain, void* address, std::size_t length, unsigned access) {
      registered_access = access;
      return verbatim_null_provider()->reg_mr(domain, address, length, access);
    };
    const ProtectionDomain domain = require(require(open_device("null0")).allocate_domain());
    std::array<std::byte, 64> memory{};
    const auto wanted = Access::local_write | Access::relaxed_ordering;
    const auto region = require(domain.register_custom(memory, wanted));
    EXPECT_EQ(registered_access, wanted.bits);
  });
}

TEST(WithFakeLibibverbs, ForkIsPreparedForOnlyWhereTheKernelNeedsIt) {
  for (const bool needed : {true, false}) {
    with_fake([needed] {
      auto& status = *static_cast<ibv_fork_status*>(fake_symbol("verbatim_fake_fork_status"));
      status = needed ? IBV_FORK_DISABLED : IBV_FORK_UNNEEDED;
      EXPECT_EQ(system_provider().unavailable(), nullptr);
      EXPECT_EQ(*static_cast<int*>(fake_symbol("verbatim_fake_fork_inits")), needed ? 1 : 0);
    });
  }
}

// ---- Choosing a device

TEST(OpenDevice, UnknownNameIsNamed) {
  with_fake([] {
    const auto context = open_device("mlx5_7");
    ASSERT_TRUE(fails_with(context, Errc::not_found));
    EXPECT_EQ(context.error().text_view(), "mlx5_7");
    EXPECT_NE(to_string(context.error()).find("mlx5_7"), std::string::npos);
  });
}

TEST(OpenDevice, NameMustMatchWhole) {
  with_fake([] {
    EXPECT_TRUE(fails_with(open_device("null"), Errc::not_found));
    EXPECT_TRUE(fails_with(open_device("null00"), Errc::not_found));
  });
}

TEST(OpenDevice, EnvironmentNamesTheDefault) {
  with_fake([] {
    verbatim_null_knobs().device_count = 3;
    setenv("VERBATIM_DEVICE", "null1", 1);
    EXPECT_EQ(require(open_device()).name(), "null1");
    EXPECT_EQ(require(open_device("null2")).name(), "null2");  // The caller's choice wins.
    setenv("VERBATIM_DEVICE", "null9", 1);
    const auto missing = open_device();
    ASSERT_TRUE(fails_with(missing, Errc::not_found));
    EXPECT_EQ(missing.error().text_view(), "null9");
  });
}

TEST(OpenDevice, WithoutANameTakesTheFirstWithAnActivePort) {
  with_fake([] {
    unsetenv("VERBATIM_DEVICE");
    verbatim_null_knobs().device_count = 3;
    fake_table().query_port = [](ibv_context* context, std::uint8_t port, ibv_port_attr* to) {
      const int failed = verbatim_null_provider()->query_port(context, port, to);
      if (std::string_view{context->device->name} != "null1") to->state = IBV_PORT_DOWN;
      return failed;
    };
    EXPECT_EQ(require(open_device()).name(), "null1");
    EXPECT_EQ(require(open_device("null2")).name(), "null2");  // By name even without a link.
  });
}

TEST(OpenDevice, WithoutAnyActivePortSaysWhatTheStateIs) {
  with_fake([] {
    unsetenv("VERBATIM_DEVICE");
    verbatim_null_knobs().port.state = IBV_PORT_INIT;
    const auto context = open_device();
    EXPECT_TRUE(fails_naming(context, Errc::not_ready, "port", {.value = 1}));
    EXPECT_EQ(context.error().text_view(), "INIT");
    EXPECT_EQ(verbatim_null_live_objects(), 0);
  });
}

TEST(OpenDevice, WithoutANameSkipsDevicesThatCannotConnect) {
  with_fake([] {
    unsetenv("VERBATIM_DEVICE");
    verbatim_null_knobs().transport_type = IBV_TRANSPORT_IWARP;
    EXPECT_TRUE(fails_with(open_device(), Errc::not_found));
    EXPECT_EQ(require(open_device("null0")).name(), "null0");
  });
}

TEST(OpenDevice, WithoutAnyDeviceSaysSo) {
  with_fake([] {
    unsetenv("VERBATIM_DEVICE");
    verbatim_null_knobs().device_count = 0;
    EXPECT_TRUE(fails_with(open_device(), Errc::not_found));
  });
}

TEST(OpenDevice, ThatFailsSaysWhy) {
  with_fake([] {
    unsetenv("VERBATIM_DEVICE");
    fake_table().open_device = [](ibv_device*) -> ibv_context* {
      errno = EACCES;
      return nullptr;
    };
    for (const auto& context : {open_device(), open_device("null0")}) {
      ASSERT_TRUE(fails_with(context, Errc::permission_denied));
      EXPECT_EQ(context.error().text_view(), "null0");
    }
  });
}

std::string device_path;  // Where the kernel seems to describe the device.

ibv_device** list_with_path(int* count) {
  ibv_device** const list = verbatim_null_provider()->get_device_list(count);
  device_path.copy(list[0]->ibdev_path, sizeof list[0]->ibdev_path - 1);
  return list;
}

TEST(OpenDevice, RefusesAnotherTransport) {
  with_fake([] {
    const FakeRoot root;
    device_path = root.path();
    fake_table().get_device_list = &list_with_path;
    // A device without a parent on a bus is created by the kernel.
    EXPECT_EQ(require(open_device("null0")).transport(), Transport::kernel_software);
    const auto refused = open_device({.name = "null0", .require = Transport::hardware});
    EXPECT_TRUE(fails_naming(refused, Errc::unsupported, "transport",
                             {.value = std::to_underlying(Transport::kernel_software)}));
    EXPECT_EQ(refused.error().text_view(), "null0");
    EXPECT_TRUE(succeeds(open_device({.name = "null0", .require = Transport::kernel_software})));

    root.make_directory("device");
    EXPECT_EQ(require(open_device("null0")).transport(), Transport::hardware);
    unsetenv("VERBATIM_DEVICE");
    EXPECT_TRUE(succeeds(open_device({.require = Transport::hardware})));
    EXPECT_TRUE(fails_with(open_device({.require = Transport::soft}), Errc::not_found));
  });
}

}  // namespace
}  // namespace verbatim::test
