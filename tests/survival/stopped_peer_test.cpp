// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer that is stopped in the middle of a copy costs nobody more than the memory that it
//       copies into. Everything else can be taken back at once, and all others go on.
// Method: the holder of hold_test.cpp, stopped while it writes into a region of ours or into a
//         receive of ours; meanwhile other memory is freed, its queue pair goes away, and another
//         process talks to us through the same queues.
// Covers: soft/ghosts.cpp
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <string_view>

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

constexpr std::size_t kBytes = 4 * 4096;  // What the holder copies.
constexpr unsigned kMessages = 200;

/// Of message `index`: small ones ride in the ring, large ones are placed.
std::size_t size_of(unsigned index) { return index % 2 == 0 ? 64 : 9000; }

/// Sends verified messages when told. Link: to the test. Heard: g. Said: d, or e.
int play_steady(const std::vector<std::string>&) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  Session session = join(link);
  Buffer source = require(session.domain.allocate(kBytes));
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

/// Memory for receives, and a queue pair or a shared queue that they are posted to.
class Server {
 public:
  explicit Server(bool shared) : queue(completion_queue(domain.context())) {
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
    const Receive work{sink.scatter(place * kBytes, kBytes)};
    require(srq ? unsafe::post(*srq, work, WrId{place})
                : unsafe::post(queue_pair, work, WrId{place}));
  }

  ProtectionDomain domain = require(open_context().allocate_domain());
  RawRegion window{domain, kBytes};   // What the holder may write to,
  RawRegion receive{domain, kBytes};  // and where its message goes.
  RawRegion unrelated{domain, kBytes};
  CompletionQueue queue;
  std::optional<SharedReceiveQueue> srq;
  Buffer sink = require(domain.allocate(16 * kBytes));
};

/// What the holder does; whether all queue pairs share their receives.
using Way = std::tuple<const char*, bool>;

/// A server whose first peer is stopped inside a copy.
class Scene {
 public:
  explicit Scene(const Way& way)
      : writes(std::get<0>(way) == std::string_view{"write"}),
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
  ~Scene() { holder.kill(); }  // Or everything that goes now waits for it.
  static constexpr std::uint64_t kHeld = 99;

  [[nodiscard]] RawRegion& target() { return writes ? server.window : server.receive; }
  /// The other of the two, which it does not touch.
  [[nodiscard]] RawRegion& other() { return writes ? server.receive : server.window; }
  void expect_busy() {
    const auto start = Clock::now();
    EXPECT_EQ(target().deregister(), EBUSY);
    EXPECT_LT(Clock::now() - start, 5s);
  }
  void expect_free() {
    EXPECT_TRUE(eventually([&] { return target().deregister() == 0; }, 3s));
  }
  void resume() {
    holder.resume();
    static_cast<void>(holder.control().hear());
  }

  bool writes;
  std::pair<int, int> ends = socket_pair();
  Process holder;
  Link link;
  Server server;
  Meeting its;
};

template <class F>
void expect_at_once(F take_back, const char* what) {
  const auto start = Clock::now();
  EXPECT_EQ(take_back(), 0) << what;
  EXPECT_LT(Clock::now() - start, 500ms) << what;
}

/// Each in a process of its own: what could not be taken back is in nobody's way.
class StoppedPeer : public testing::TestWithParam<Way> {
 protected:
  template <class Body>
  static void play(Body body) {
    const SoftDirectory directory;
    VERBATIM_CONTAINED(60s, [&] {
      Scene scene{GetParam()};
      body(scene);
    });
  }
};

TEST_P(StoppedPeer, DoesNotDelayOtherMemory) {
  play([](Scene& scene) {
    expect_at_once([&] { return scene.server.unrelated.deregister(); }, "memory it never saw");
    expect_at_once([&] { return scene.other().deregister(); }, "memory it does not use now");
    const auto start = Clock::now();
    for (int i = 0; i < 3; ++i) static_cast<void>(require(scene.server.domain.allocate(1 << 20)));
    EXPECT_LT(Clock::now() - start, 500ms) << "Buffers of the same domain";
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

// Nothing of a queue pair is in use while its peer writes to a region: the region is.
TEST_P(StoppedPeer, WriterDoesNotKeepTheQueuePair) {
  if (std::get<0>(GetParam()) != std::string_view{"write"})
    GTEST_SKIP() << "the copy goes into a receive of the queue pair";
  play([](Scene& scene) {
    const auto as_errno = [](const Result<void>& done) { return done ? 0 : done.error().os_error; };
    QueuePair& queue_pair = scene.its.queue_pair;
    expect_at_once([&] { return as_errno(queue_pair.move_to_error()); }, "to the error state");
    expect_at_once([&] { return as_errno(queue_pair.destroy()); }, "destroying");
    scene.expect_busy();
    scene.resume();
    scene.expect_free();
  });
}

/// Takes what another process sends through the same queues, and checks it.
void expect_traffic(Scene& scene) {
  Server& server = scene.server;
  const auto [here, there] = socket_pair();
  Process steady = Process::start({"steady"}, {there});
  Link link{here};
  Meeting good = server.accept(link);
  for (std::uint64_t place = 0; place < 15; ++place) server.post(good.queue_pair, place);
  steady.control().say('g');
  unsigned came = 0;
  bool is_good = true;
  const bool all = eventually(
      [&] {
        const auto found = poll_within(server.queue, 0s);
        if (!found) return false;
        const auto place = std::to_underlying(found->id());
        // Where receives are shared, a writer's own one is there for the good peer.
        const auto sink = place == Scene::kHeld
                              ? server.receive.bytes()
                              : server.sink.bytes().subspan(place * kBytes, kBytes);
        is_good = found->ok() && found->byte_count() == size_of(came) &&
                  holds(sink.first(size_of(came)), came);
        ++came;
        if (is_good && place != Scene::kHeld) server.post(good.queue_pair, place);
        return !is_good || came == kMessages;
      },
      10s);
  EXPECT_TRUE(all && is_good) << came << " messages came";
  EXPECT_EQ(steady.control().hear(5s), 'd');
}

TEST_P(StoppedPeer, LetsOthersGoOn) {
  play([](Scene& scene) { expect_traffic(scene); });
}

std::string name_of(const testing::TestParamInfo<Way>& each) {
  return std::string{std::get<0>(each.param)} + (std::get<1>(each.param) ? "_shared" : "_own");
}

INSTANTIATE_TEST_SUITE_P(Copies, StoppedPeer,
                         testing::Combine(testing::Values("write", "send"), testing::Bool()),
                         name_of);

}  // namespace
}  // namespace verbatim::test
