// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer that is stopped in the middle of a copy blocks only the memory into which it copies.
//       Everything else can be taken back at once, and all others continue.
// Method: the holder of hold_test.cpp, stopped while it writes into a region or a receive of ours;
//         meanwhile other memory is freed, its queue pair is destroyed, and another process talks
//         to us through the same queues.
// Covers: soft/ghosts.cpp
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <string_view>

#include "soft/control/queue_pair.hpp"
#include "support/pattern.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/raw_region.hpp"
#include "survival/role.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kCopiedBytes = 4 * 4096;  // What the holder copies.
constexpr unsigned kMessages = 200;

/// The size of message `index`: small ones travel in the ring, large ones are placed.
std::size_t size_of(unsigned index) { return index % 2 == 0 ? 64 : 9000; }

/// Sends verified messages on order. Link: to the test. Receives: g. Sends: d, or e.
int play_steady(const std::vector<std::string>&) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  Session session = join(link);
  Buffer source = require(session.domain.allocate(kCopiedBytes));
  while (control.hear() == 'g') {
    for (unsigned i = 0; i < kMessages; ++i) {
      fill(source.bytes().first(size_of(i)), i);
      session.side.post(Send{source.gather(0, size_of(i))}, i);
      if (poll_one(session.side.sends).ok()) continue;
      control.say('e');
      return 1;
    }
    control.say('d');
  }
  return 0;
}
const Role kSteady{"steady", &play_steady};

/// Memory for receives, and the queue pair or shared queue to which they are posted.
class StoppedServer {
 public:
  explicit StoppedServer(bool shared) : queue(completion_queue(domain.context())) {
    if (shared) srq.emplace(require(domain.create_shared_receive_queue({.max_requests = 16})));
  }
  [[nodiscard]] Meeting accept(Link& link) {
    QueuePairOptions options = queue_pair_options(domain, queue, queue);
    be_patient(options);
    if (srq) {
      options.shared_receive_queue = *srq;
      options.max_receive_requests = {};
    }
    return meet(link, options, window.remote());
  }
  void post(QueuePair& queue_pair, std::uint64_t place) {
    const Receive work{sink.scatter(place * kCopiedBytes, kCopiedBytes)};
    require(srq ? unsafe::post(*srq, work, WrId{place})
                : unsafe::post(queue_pair, work, WrId{place}));
  }

  ProtectionDomain domain = require(open_context().allocate_domain());
  RawRegion window{domain, kCopiedBytes};   // What the holder may write to,
  RawRegion receive{domain, kCopiedBytes};  // and where its message goes.
  RawRegion unrelated{domain, kCopiedBytes};
  CompletionQueue queue;
  std::optional<SharedReceiveQueue> srq;
  Buffer sink = require(domain.allocate(16 * kCopiedBytes));
};

/// What the holder does; whether all queue pairs share their receives.
using Way = std::tuple<const char*, bool>;

/// A server whose first peer is stopped inside a copy.
class Scene {
 public:
  explicit Scene(const Way& way)
      : writes(std::get<0>(way) != std::string_view{"send"}),
        holder(Process::start({"holder", std::get<0>(way)}, {ends.second})),
        link(ends.first),
        server(std::get<1>(way)),
        its(server.accept(link)) {
    ibv_srq* const shared = server.srq ? unsafe::native(*server.srq) : nullptr;
    if (server.receive.post_receive(unsafe::native(its.queue_pair), shared, kHeld) != 0)
      give_up("no receive", Where::current());
    link.barrier();
    if (holder.control().hear() != 'h') give_up("not inside a copy", Where::current());
    holder.wait_until_stopped();
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() { holder.kill(); }  // Otherwise the teardown waits for it.
  static constexpr std::uint64_t kHeld = 99;

  [[nodiscard]] RawRegion& target() { return writes ? server.window : server.receive; }
  /// The other of the two, which the holder does not touch.
  [[nodiscard]] RawRegion& other() { return writes ? server.receive : server.window; }
  void expect_busy() {
    const auto start = Clock::now();
    EXPECT_EQ(target().deregister(), EBUSY);
    EXPECT_LT(Clock::now() - start, 15s) << "it waits for as long as the peer is stopped";
  }
  void expect_free() {
    EXPECT_TRUE(eventually([&] { return target().deregister() == 0; }));
  }
  /// Also notes whether it was slow: see StoppedPeer::play().
  template <class F>
  void expect_at_once(F take_back, const char* what) {
    const auto start = Clock::now();
    EXPECT_EQ(take_back(), 0) << what;
    if (Clock::now() - start >= 500ms) slow = what;
  }
  void resume() {
    holder.resume();
    static_cast<void>(holder.control().hear());
  }

  bool writes;
  const char* slow = nullptr;
  std::pair<int, int> ends = socket_pair();
  Process holder;
  Link link;
  StoppedServer server;
  Meeting its;
};

/// Each test runs in a separate process, so that memory that could not be taken back is in nobody's
/// way.
class StoppedPeer : public testing::TestWithParam<Way> {
 protected:
  /// If something was slow, once more: the machine may have stood still. A stopped peer that delays
  /// it does so each time.
  template <class Body>
  static void play(Body body) {
    constexpr int kSlow = 78;
    int status = -1;
    for (int left = 5; left > 0; --left) {
      const SoftDirectory directory;
      status = status_within(start_contained([&] {
                               const char* slow = nullptr;
                               {
                                 Scene scene{GetParam()};
                                 body(scene);
                                 slow = scene.slow;
                               }
                               if (slow == nullptr || HasFailure()) return;
                               std::fprintf(stderr, "not at once: %s\n", slow);
                               std::_Exit(kSlow);
                             }),
                             60s);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != kSlow) break;
    }
    EXPECT_EQ(status, 0) << describe_end(status);
  }
};

TEST_P(StoppedPeer, DoesNotDelayOtherMemory) {
  play([](Scene& scene) {
    scene.expect_at_once([&] { return scene.server.unrelated.deregister(); },
                         "memory it never saw");
    scene.expect_at_once([&] { return scene.other().deregister(); }, "memory it does not use now");
    const auto use_buffers = [&] {
      for (int i = 0; i < 3; ++i) static_cast<void>(require(scene.server.domain.allocate(1 << 20)));
      return 0;
    };
    scene.expect_at_once(use_buffers, "Buffers of the same domain");
  });
}

TEST_P(StoppedPeer, KeepsItsTargetUntilItGoesOn) {
  play([](Scene& scene) {
    scene.expect_busy();
    scene.resume();
    scene.expect_free();
  });
}

TEST_P(StoppedPeer, KeepsItsTargetUntilItDies) {
  play([](Scene& scene) {
    scene.expect_busy();
    scene.holder.kill();
    scene.expect_free();
  });
}

// While its peer writes to a region, only the region is in use, and nothing of the queue pair.
TEST_P(StoppedPeer, WriterDoesNotKeepTheQueuePair) {
  if (std::get<0>(GetParam()) == std::string_view{"send"})
    GTEST_SKIP() << "the copy goes into a receive of the queue pair";
  play([](Scene& scene) {
    const auto as_errno = [](const Result<void>& done) { return done ? 0 : done.error().os_error; };
    QueuePair& queue_pair = scene.its.queue_pair;
    scene.expect_at_once([&] { return as_errno(queue_pair.move_to_error()); },
                         "to the error state");
    scene.expect_at_once([&] { return as_errno(queue_pair.destroy()); }, "destroying");
    scene.expect_busy();
    scene.resume();
    scene.expect_free();
  });
}

// Otherwise nobody would find the one inside by the new connection, and its target would be freed
// under it.
TEST_P(StoppedPeer, KeepsTheQueuePairFromANewConnection) {
  if (std::get<0>(GetParam()) == std::string_view{"send"})
    GTEST_SKIP() << "the copy goes into a receive of the queue pair: it cannot be reset";
  play([](Scene& scene) {
    ibv_qp* const raw = unsafe::native(scene.its.queue_pair);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(engine::query_queue_pair(raw, &attributes, 0, &init), 0);
    const auto move = [&](ibv_qp_state to, int mask) {
      attributes.qp_state = to;
      return engine::modify_queue_pair(raw, &attributes, IBV_QP_STATE | mask);
    };
    const auto connect = [&] {
      return move(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    };
    scene.expect_at_once([&] { return move(IBV_QPS_RESET, 0); }, "to the reset state");
    ASSERT_EQ(move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    EXPECT_EQ(connect(), EBUSY);
    scene.expect_busy();
    scene.resume();
    EXPECT_TRUE(eventually([&] { return connect() == 0; }));
    scene.expect_free();
  });
}

/// Takes what another process sends through the same queues, and checks it.
void expect_traffic(Scene& scene) {
  StoppedServer& server = scene.server;
  const auto [here, there] = socket_pair();
  Process steady = Process::start({"steady"}, {there});
  Link link{here};
  Meeting good = server.accept(link);
  for (std::uint64_t place = 0; place < 15; ++place) server.post(good.queue_pair, place);
  steady.control().say('g');
  unsigned came = 0;
  bool is_good = true;
  const bool all = eventually([&] {
    const auto found = poll_within(server.queue, 0s);
    if (!found) return false;
    const auto place = std::to_underlying(found->id());
    // With shared receives, the good peer may also get the receive that was meant for the writer.
    const auto sink = place == Scene::kHeld
                          ? server.receive.bytes()
                          : server.sink.bytes().subspan(place * kCopiedBytes, kCopiedBytes);
    is_good = found->ok() && found->byte_count() == size_of(came) &&
              holds(sink.first(size_of(came)), came);
    ++came;
    if (is_good && place != Scene::kHeld) server.post(good.queue_pair, place);
    return !is_good || came == kMessages;
  });
  EXPECT_TRUE(all && is_good) << came << " messages came";
  EXPECT_EQ(steady.control().hear(), 'd');
}

TEST_P(StoppedPeer, LetsOthersGoOn) {
  play([](Scene& scene) { expect_traffic(scene); });
}

std::string name_of(const testing::TestParamInfo<Way>& each) {
  return std::string{std::get<0>(each.param)} + (std::get<1>(each.param) ? "_shared" : "_own");
}

INSTANTIATE_TEST_SUITE_P(Copies, StoppedPeer,
                         testing::Combine(testing::Values("write", "again", "send"),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace verbatim::test
