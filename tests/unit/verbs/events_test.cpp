// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every event is taken, acknowledged, and found on the object that it concerns; every
//       listener hears it; and an event of an object that is gone does no harm.
// Method: events injected into the null provider, which refuses to destroy an object with an event
//         that was not acknowledged. The test reads them by hand if it is about marks, and lets the
//         library's thread read them if it is about that thread.
#include "verbatim/verbs/events.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/base/explain.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

ibv_async_event event_of(ibv_event_type type, int port = 0) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  return event;
}
ibv_async_event event_of(ibv_event_type type, const QueuePair& object) {
  ibv_async_event event = event_of(type);
  event.element.qp = unsafe::native(object);
  return event;
}
ibv_async_event event_of(ibv_event_type type, const CompletionQueue& object) {
  ibv_async_event event = event_of(type);
  event.element.cq = unsafe::native(object);
  return event;
}
ibv_async_event event_of(ibv_event_type type, const SharedReceiveQueue& object) {
  ibv_async_event event = event_of(type);
  event.element.srq = unsafe::native(object);
  return event;
}
void raise(const Context& context, const ibv_async_event& event) {
  verbatim_null_raise(unsafe::native(context), &event);
}

/// Keeps what it hears, and can wait for it.
class Listener {
 public:
  EventHandler handler() {
    return [this](const AsyncEvent& event) {
      const std::lock_guard lock{mutex_};
      heard_.push_back(event);
      thread_ = std::this_thread::get_id();
      changed_.notify_all();
    };
  }
  /// The first `count` events; fewer if they do not come.
  std::vector<AsyncEvent> wait(std::size_t count) {
    std::unique_lock lock{mutex_};
    changed_.wait_for(lock, std::chrono::seconds{30}, [&] { return heard_.size() >= count; });
    return heard_;
  }
  std::thread::id thread() {
    const std::lock_guard lock{mutex_};
    return thread_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<AsyncEvent> heard_;
  std::thread::id thread_;
};

/// Waits for what another thread does, but no longer than a test may take.
bool eventually(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (std::chrono::steady_clock::now() < deadline) {
    if (holds()) return true;
    std::this_thread::yield();
  }
  return holds();
}

// ---- Names

TEST(EventType, HasTheNumberOfTheVerbs) {
  EXPECT_EQ(EventType{1u << IBV_EVENT_CQ_ERR}, EventType::completion_queue_error);
  EXPECT_EQ(EventType{1u << IBV_EVENT_QP_FATAL}, EventType::queue_pair_fatal);
  EXPECT_EQ(EventType{1u << IBV_EVENT_DEVICE_FATAL}, EventType::device_fatal);
  EXPECT_EQ(EventType{1u << IBV_EVENT_PORT_ERR}, EventType::port_error);
  EXPECT_EQ(EventType{1u << IBV_EVENT_SRQ_LIMIT_REACHED},
            EventType::shared_receive_queue_limit_reached);
  EXPECT_EQ(EventType{1u << IBV_EVENT_QP_LAST_WQE_REACHED}, EventType::last_receive_reached);
  EXPECT_EQ(EventType{1u << IBV_EVENT_GID_CHANGE}, EventType::gid_change);
  EXPECT_EQ(EventType{1u << IBV_EVENT_WQ_FATAL}, EventType::work_queue_fatal);
}

TEST(EventType, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (unsigned bit = 0; bit <= IBV_EVENT_WQ_FATAL; ++bit)
    names.insert(to_string(EventType{1u << bit}));
  EXPECT_EQ(names.size(), IBV_EVENT_WQ_FATAL + 1u);
  EXPECT_FALSE(names.contains("unknown event"));
  EXPECT_EQ(to_string(EventType{1u << 31}), "unknown event");
}

// ---- By hand

class ManualEventsTest : public NullDevice {
 protected:
  void SetUp() override {
    bench.emplace(open({.events = EventDelivery::manual, .on_event = listener.handler()}));
    queue_pair.emplace(bench->connected());
    other.emplace(bench->connected());
    shared.emplace(require(bench->domain.create_shared_receive_queue({.max_requests = 4})));
  }
  void TearDown() override {
    queue_pair.reset();
    other.reset();
    shared.reset();
    bench.reset();
    NullDevice::TearDown();
  }
  void raise(const ibv_async_event& event) { test::raise(bench->context, event); }
  std::size_t dispatch() { return require(bench->context.dispatch_events()); }
  bool readable() const {
    pollfd entry{.fd = bench->context.event_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  Listener listener;
  std::optional<Bench> bench;
  std::optional<QueuePair> queue_pair;
  std::optional<QueuePair> other;
  std::optional<SharedReceiveQueue> shared;
};

TEST_F(ManualEventsTest, NothingToReadIsNothing) {
  EXPECT_FALSE(readable());
  EXPECT_EQ(dispatch(), 0u);
}

TEST_F(ManualEventsTest, WaitUntilTheyAreRead) {
  raise(event_of(IBV_EVENT_QP_FATAL, *queue_pair));
  EXPECT_TRUE(readable());
  EXPECT_EQ(queue_pair->events(), EventFlags{});
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_FALSE(readable());
  EXPECT_EQ(queue_pair->events(), EventFlags{EventType::queue_pair_fatal});
}

TEST_F(ManualEventsTest, AreAllReadAtOnce) {
  raise(event_of(IBV_EVENT_QP_FATAL, *queue_pair));
  raise(event_of(IBV_EVENT_CQ_ERR, bench->queue));
  raise(event_of(IBV_EVENT_PORT_ERR, 1));
  EXPECT_EQ(dispatch(), 3u);
  EXPECT_EQ(dispatch(), 0u);
}

TEST_F(ManualEventsTest, MarkTheQueuePairTheyConcern) {
  for (const ibv_event_type type :
       {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_COMM_EST,
        IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG, IBV_EVENT_PATH_MIG_ERR,
        IBV_EVENT_QP_LAST_WQE_REACHED}) {
    raise(event_of(type, *queue_pair));
    EXPECT_EQ(dispatch(), 1u);
    EXPECT_TRUE(queue_pair->events().has(EventType{1u << type}));
  }
  EXPECT_EQ(other->events(), EventFlags{});
  EXPECT_EQ(bench->queue.events(), EventFlags{});
  EXPECT_EQ(bench->context.events(), EventFlags{});
}

TEST_F(ManualEventsTest, MarkTheCompletionQueueTheyConcern) {
  raise(event_of(IBV_EVENT_CQ_ERR, bench->queue));
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_EQ(bench->queue.events(), EventFlags{EventType::completion_queue_error});
  EXPECT_EQ(queue_pair->events(), EventFlags{});
  EXPECT_EQ(bench->context.events(), EventFlags{});
}

TEST_F(ManualEventsTest, MarkTheSharedReceiveQueueTheyConcern) {
  raise(event_of(IBV_EVENT_SRQ_LIMIT_REACHED, *shared));
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_EQ(shared->events(), EventFlags{EventType::shared_receive_queue_limit_reached});
  raise(event_of(IBV_EVENT_SRQ_ERR, *shared));
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_EQ(shared->events(),
            EventType::shared_receive_queue_limit_reached | EventType::shared_receive_queue_error);
}

TEST_F(ManualEventsTest, MarkTheContextOtherwise) {
  for (const ibv_event_type type :
       {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE,
        IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER,
        IBV_EVENT_GID_CHANGE}) {
    raise(event_of(type, 1));
    EXPECT_EQ(dispatch(), 1u);
    EXPECT_TRUE(bench->context.events().has(EventType{1u << type}));
  }
  EXPECT_EQ(shared->events(), EventFlags{});
  EXPECT_EQ(bench->queue.events(), EventFlags{});
}

// ---- Of a port

TEST_F(ManualEventsTest, OfAPortMarkTheQueuePairsThere) {
  for (const ibv_event_type type :
       {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
        IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE}) {
    raise(event_of(type, 1));
    EXPECT_EQ(dispatch(), 1u);
    for (const QueuePair* each : {&*queue_pair, &*other})
      EXPECT_TRUE(each->events().has(EventType{1u << type})) << type;
  }
}

TEST_F(ManualEventsTest, OfAnotherPortOrTheDeviceLeaveThemAlone) {
  for (const int port : {0, 2, 255}) raise(event_of(IBV_EVENT_PORT_ERR, port));
  raise(event_of(IBV_EVENT_DEVICE_FATAL, 1));  // The number has no meaning here.
  EXPECT_EQ(dispatch(), 4u);
  EXPECT_EQ(queue_pair->events(), EventFlags{});
  EXPECT_TRUE(bench->context.events().has(EventType::port_error | EventType::device_fatal));
}

TEST_F(ManualEventsTest, OfAPortReachEachQueuePairOnItsOwn) {
  knobs.device.phys_port_cnt = 2;
  const Bench two(open({.events = EventDelivery::manual}));
  const auto at = [&](std::uint8_t port) {
    return two.connected([=](QueuePairOptions& options) { options.route.port = port; });
  };
  const QueuePair first = at(1);
  const QueuePair second = at(2);
  test::raise(two.context, event_of(IBV_EVENT_GID_CHANGE, 2));
  EXPECT_EQ(require(two.context.dispatch_events()), 1u);
  EXPECT_EQ(first.events(), EventFlags{});
  EXPECT_EQ(second.events(), EventFlags{EventType::gid_change});
}

TEST_F(ManualEventsTest, OfAPortAreForgottenByAReset) {
  raise(event_of(IBV_EVENT_PORT_ERR, 1));  // Not read yet: the reset reads it.
  const QueuePair again = loop_back(require(std::move(*queue_pair).reset()));
  EXPECT_EQ(again.events(), EventFlags{});
  raise(event_of(IBV_EVENT_LID_CHANGE, 1));
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_EQ(again.events(), EventFlags{EventType::lid_change});
}

TEST_F(ManualEventsTest, OfAPortNeedNoQueuePair) {
  queue_pair.reset();
  other.reset();
  raise(event_of(IBV_EVENT_PORT_ERR, 1));
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_TRUE(bench->context.events().has(EventType::port_error));
}

TEST(PathTrouble, IsTheEventThatExplainsMost) {
  using enum EventType;
  EXPECT_EQ(path_trouble({}), std::nullopt);
  EXPECT_EQ(path_trouble(port_active | queue_pair_fatal | subnet_manager_change), std::nullopt);
  EXPECT_EQ(path_trouble(EventFlags{partition_key_change}), partition_key_change);
  EXPECT_EQ(path_trouble(lid_change | partition_key_change), lid_change);
  EXPECT_EQ(path_trouble(gid_change | lid_change), gid_change);
  EXPECT_EQ(path_trouble(kPathEvents | port_active), port_error);
}

TEST(PathTrouble, IsExplainedByItsName) {
  for (std::uint32_t rest = kPathEvents.bits; rest != 0; rest &= rest - 1) {
    const EventType type{rest & -rest};
    const Error error =
        Error{.code = Errc::work_failed, .operation = "work request", .value = 12}.with_text(
            to_string(type));
    const std::string text = explain(error);
    EXPECT_TRUE(text.contains(" meanwhile")) << text;
    EXPECT_LT(text.find(" meanwhile"), text.find("the peer is gone")) << text;
    EXPECT_TRUE(
        explain(Error{.code = Errc::timed_out}.with_text(to_string(type))).contains(" meanwhile"));
  }
}

TEST(EventFlags, AreListedByName) {
  EXPECT_EQ(to_string(EventFlags{}), "");
  EXPECT_EQ(to_string(EventFlags{EventType::port_error}), "port error");
  EXPECT_EQ(to_string(EventType::gid_change | EventType::port_error), "port error, GID change");
}

TEST_F(ManualEventsTest, AreToldToTheListener) {
  raise(event_of(IBV_EVENT_QP_ACCESS_ERR, *other));
  raise(event_of(IBV_EVENT_PORT_ERR, 2));
  raise(event_of(IBV_EVENT_CQ_ERR, bench->queue));
  EXPECT_EQ(dispatch(), 3u);
  const auto heard = listener.wait(3);
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0].type, EventType::queue_pair_access_error);
  EXPECT_EQ(heard[0].queue_pair, other->number());
  EXPECT_EQ(heard[0].port, 0);
  EXPECT_EQ(heard[1].type, EventType::port_error);
  EXPECT_EQ(heard[1].port, 2);
  EXPECT_EQ(heard[1].queue_pair, QpNumber{0});
  EXPECT_EQ(heard[2].type, EventType::completion_queue_error);
  EXPECT_EQ(heard[2].port, 0);
  EXPECT_EQ(listener.thread(), std::this_thread::get_id());
}

// The mark comes first, so a listener that looks at the object finds it.
TEST_F(ManualEventsTest, AreMarkedBeforeTheyAreTold) {
  EventFlags seen;
  const QueuePair* watched = nullptr;
  const Bench own(open({.events = EventDelivery::manual,
                        .on_event = [&](const AsyncEvent&) { seen = watched->events(); }}));
  const QueuePair mine = own.connected();
  watched = &mine;
  test::raise(own.context, event_of(IBV_EVENT_QP_FATAL, mine));
  require(own.context.dispatch_events());
  EXPECT_EQ(seen, EventFlags{EventType::queue_pair_fatal});
}

TEST_F(ManualEventsTest, StayWithAnObjectThatMoves) {
  raise(event_of(IBV_EVENT_QP_FATAL, *queue_pair));
  QueuePair moved = *std::move(queue_pair);
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_EQ(moved.events(), EventFlags{EventType::queue_pair_fatal});
  raise(event_of(IBV_EVENT_COMM_EST, moved));
  const QueuePair again = std::move(moved);
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_TRUE(again.events().has(EventType::communication_established));
}

TEST_F(ManualEventsTest, OfADestroyedObjectAreNoDanger) {
  raise(event_of(IBV_EVENT_QP_FATAL, *queue_pair));
  raise(event_of(IBV_EVENT_SRQ_ERR, *shared));
  raise(event_of(IBV_EVENT_QP_FATAL, *other));
  queue_pair.reset();
  shared.reset();
  EXPECT_EQ(dispatch(), 1u);  // The device removes those of the others.
  EXPECT_EQ(other->events(), EventFlags{EventType::queue_pair_fatal});
}

// An object that the library did not create; a vendor's extension may have.
TEST_F(ManualEventsTest, OfAnUnknownObjectAreToldButMarkNothing) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = unsafe::native(bench->queue);
  ibv_qp* const raw = table.create_qp(unsafe::native(bench->domain), &init);
  ASSERT_NE(raw, nullptr);
  ibv_async_event event = event_of(IBV_EVENT_QP_FATAL);
  event.element.qp = raw;
  raise(event);
  EXPECT_EQ(dispatch(), 1u);
  EXPECT_EQ(listener.wait(1).at(0).queue_pair, QpNumber{raw->qp_num});
  EXPECT_EQ(table.destroy_qp(raw), 0);  // It was acknowledged.
  EXPECT_EQ(queue_pair->events(), EventFlags{});
}

TEST_F(ManualEventsTest, AreLogged) {
  static std::string logged;
  logged.clear();
  const LogSink before =
      set_log_sink([](LogLevel, std::string_view line) noexcept { (logged += line) += '\n'; });
  raise(event_of(IBV_EVENT_PORT_ERR, 1));
  dispatch();
  set_log_sink(before);
  EXPECT_NE(logged.find("port error"), std::string::npos) << logged;
}

int event_failure = 0;

TEST_F(ManualEventsTest, ThatCannotBeReadAreAnError) {
  table.get_async_event = [](ibv_context* context, ibv_async_event* event) {
    if (event_failure == 0) return verbatim_null_provider()->get_async_event(context, event);
    errno = event_failure;
    return -1;
  };
  event_failure = EIO;
  const auto failed = bench->context.dispatch_events();
  ASSERT_TRUE(fails_with(failed, Errc::driver));
  EXPECT_EQ(failed.error().os_error, EIO);
  EXPECT_STREQ(failed.error().operation, "ibv_get_async_event");
  event_failure = EINTR;
  EXPECT_EQ(dispatch(), 0u);
  event_failure = 0;
}

// ---- By the library's thread

class EventThreadTest : public NullDevice {
 protected:
  static std::set<std::string> threads() {
    std::set<std::string> numbers;
    for (const auto& each : std::filesystem::directory_iterator{"/proc/self/task"})
      numbers.insert(each.path().filename());
    return numbers;
  }
  /// How many there are that were not there before. Others may end meanwhile: the kernel lists a
  /// thread a while longer than join() waits, and a name is looked up by a thread of its own.
  static std::ptrdiff_t threads_since(const std::set<std::string>& before) {
    return std::ranges::count_if(
        threads(), [&](const std::string& number) { return !before.contains(number); });
  }
};

TEST_F(EventThreadTest, ReadsMarksAndTells) {
  Listener listener;
  const Bench bench(open({.on_event = listener.handler()}));
  const QueuePair queue_pair = bench.connected();
  raise(bench.context, event_of(IBV_EVENT_QP_FATAL, queue_pair));
  const auto heard = listener.wait(1);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0].queue_pair, queue_pair.number());
  EXPECT_EQ(queue_pair.events(), EventFlags{EventType::queue_pair_fatal});
  EXPECT_NE(listener.thread(), std::this_thread::get_id());
}

TEST_F(EventThreadTest, NeedsNoListener) {
  const Bench bench(open());
  const QueuePair queue_pair = bench.connected();
  raise(bench.context, event_of(IBV_EVENT_PORT_ERR, 1));
  EXPECT_TRUE(eventually([&] { return bench.context.events().has(EventType::port_error); }));
}

TEST_F(EventThreadTest, StartsWithTheFirstQueueAndEndsWithTheContext) {
  const auto before = threads();
  {
    const Bench bench(open());
    EXPECT_EQ(threads_since(before), 0);
    const QueuePair first = bench.connected();
    const QueuePair second = bench.connected();
    EXPECT_EQ(threads_since(before), 1);
  }
  EXPECT_TRUE(eventually([&] { return threads_since(before) == 0; }));
}

TEST_F(EventThreadTest, StartsWithASharedReceiveQueueToo) {
  const Bench bench(open());
  const auto shared = require(bench.domain.create_shared_receive_queue({.max_requests = 4}));
  raise(bench.context, event_of(IBV_EVENT_SRQ_LIMIT_REACHED, shared));
  EXPECT_TRUE(eventually(
      [&] { return shared.events().has(EventType::shared_receive_queue_limit_reached); }));
}

TEST_F(EventThreadTest, DoesNotExistWhereEventsAreReadByHand) {
  const auto before = threads();
  const Bench bench(open({.events = EventDelivery::manual}));
  const QueuePair queue_pair = bench.connected();
  EXPECT_EQ(threads_since(before), 0);
}

TEST_F(EventThreadTest, TellsOfADeviceThatIsGone) {
  static std::string logged;
  logged.clear();
  const LogSink before = set_log_sink([](LogLevel level, std::string_view line) noexcept {
    if (level == LogLevel::error) logged += line;
  });
  table.get_async_event = [](ibv_context*, ibv_async_event*) {
    errno = EIO;
    return -1;
  };
  {
    const Bench bench(open());
    const QueuePair queue_pair = bench.connected();
    raise(bench.context, event_of(IBV_EVENT_DEVICE_FATAL));
    EXPECT_TRUE(eventually([&] { return bench.context.events().has(EventType::device_fatal); }));
  }
  set_log_sink(before);
  EXPECT_NE(logged.find("the device is gone"), std::string::npos) << logged;
}

// Objects and events come and go: nothing is lost, leaked or touched after its end.
TEST_F(EventThreadTest, KeepsPaceWithObjectsThatComeAndGo) {
  Listener listener;
  const Bench bench(open({.on_event = listener.handler()}), 4096);
  CompletionQueue queue = bench.queue;
  std::array<Completion, 1> completions;
  for (int round = 0; round < 200; ++round) {
    std::optional<QueuePair> queue_pair = bench.connected();
    raise(bench.context, event_of(IBV_EVENT_COMM_EST, *queue_pair));
    if (round % 2 == 0) {
      EXPECT_TRUE(eventually([&] { return !queue_pair->events().empty(); }));
    }
    queue_pair.reset();
    EXPECT_EQ(require(queue.poll(completions)), 0u);
  }
  EXPECT_GE(listener.wait(100).size(), 100u);
}

}  // namespace
}  // namespace verbatim::test
