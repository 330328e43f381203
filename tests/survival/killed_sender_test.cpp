// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a sender may be killed at any instruction of a send: the receives of the shared queue that
//       it used are not lost, and the next sender finds all of them.
// Method: a client sends one message instruction by instruction and is killed after some number of
//         them, spread over the whole call. The server takes what completed, destroys the queue
//         pair, and continues. At the end a good client must be able to use every receive of the
//         queue.
#include <gtest/gtest.h>

#include "support/pattern.hpp"
#include "support/seed.hpp"
#include "survival/contained.hpp"
#include "survival/meeting.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "survival/single_steps.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPlace = 8192;
constexpr std::uint32_t kDepth = 16;
constexpr unsigned kEndless = 1'000'000;

/// Sends one message to warm up and one that is single-stepped. Arguments: bytes. Link: to the
/// server.
int play_stepped(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  Meeting with = meet(link, queue_pair_options(domain, queue, queue));
  Buffer source = require(domain.allocate(kPlace));
  const std::size_t bytes = std::stoul(role.at(1));
  fill(source.bytes(), 3);
  require(unsafe::post(with.queue_pair, Send{source.gather(0, bytes)}, WrId{1}));
  poll_ok(queue);
  link.barrier();
  let_steps_begin();
  require(unsafe::post(with.queue_pair, Send{source.gather(0, bytes)}, WrId{2}));
  let_steps_end();
  return 0;
}
const Role kStepped{"stepped", &play_stepped};

/// Sends this many messages; returns when all were received. Arguments: count, bytes.
int play_good_sender(const std::vector<std::string>& role) {
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  Meeting with = meet(link, queue_pair_options(domain, queue, queue));
  Buffer source = require(domain.allocate(kPlace));
  fill(source.bytes(), 3);
  for (int i = std::stoi(role.at(1)); i > 0; --i) {
    require(unsafe::post(with.queue_pair, Send{source.gather(0, std::stoul(role.at(2)))}, WrId{1}));
    poll_ok(queue);
  }
  link.wait_for_end();
  return 0;
}
const Role kGoodSender{"good-sender", &play_good_sender};

class SharedReceives {
 public:
  explicit SharedReceives(std::size_t bytes) : bytes_(bytes) {
    for (std::uint64_t place = 0; place < kDepth; ++place) post(place);
  }
  /// Kills a client after this many instructions of its second send. Returns how many it executed.
  /// `meanwhile`: how many messages of a good client come before the dead one's queue pair is
  /// destroyed.
  unsigned kill_after(unsigned steps, unsigned meanwhile = 0) {
    const auto [here, there] = socket_pair();
    Process client = Process::start({"stepped", std::to_string(bytes_)}, {there});
    Link link{here};
    const Meeting with = meet(link, options());
    take_until(1);
    link.barrier();
    if (!wait_for_steps(client.pid())) cannot("tracing a child");
    const unsigned made = step(client.pid(), steps);
    client.kill();
    take_all();
    if (meanwhile != 0) {
      EXPECT_TRUE(serve(meanwhile)) << came_ << " of " << meanwhile << " messages came";
    }
    return made;
    // The queue pair is destroyed here, and what is still to come of it arrives.
  }
  /// Whether a good client gets all receives.
  [[nodiscard]] bool serve_good_client() {
    take_all();
    is_reposting_ = false;
    return serve(kDepth);
  }
  [[nodiscard]] unsigned came() const noexcept { return came_; }

 private:
  /// Whether this many messages of a good client come.
  [[nodiscard]] bool serve(unsigned count) {
    const auto [here, there] = socket_pair();
    const Process client =
        Process::start({"good-sender", std::to_string(count), std::to_string(bytes_)}, {there});
    Link link{here};
    const Meeting with = meet(link, options());
    return take_until(count);
  }
  [[nodiscard]] QueuePairOptions options() {
    QueuePairOptions options = queue_pair_options(domain_, queue_, queue_);
    options.shared_receive_queue = srq_;
    options.max_receive_requests = {};
    return options;
  }
  void post(std::uint64_t place) {
    require(unsafe::post(srq_, Receive{sink_.scatter(place * kPlace, kPlace)}, WrId{place}));
  }
  bool take_one() {
    std::array<Completion, 1> found;
    if (require(queue_.poll(found)) == 0) return false;
    const auto place = std::to_underlying(found[0].id());
    EXPECT_TRUE(!found[0].ok() || holds(sink_.bytes().subspan(place * kPlace, bytes_), 3));
    ++came_;
    if (is_reposting_) post(place);
    return true;
  }
  void take_all() {
    while (take_one()) {
    }
  }
  bool take_until(unsigned count) {
    came_ = 0;
    return eventually([&] { return take_one(), came_ >= count; });
  }

  std::size_t bytes_;
  ProtectionDomain domain_ = require(open_context().allocate_domain());
  CompletionQueue queue_ = completion_queue(domain_.context());
  Buffer sink_ = require(domain_.allocate(kDepth * kPlace));
  SharedReceiveQueue srq_ = require(domain_.create_shared_receive_queue({.max_requests = kDepth}));
  unsigned came_ = 0;
  bool is_reposting_ = true;
};

/// Parameter: bytes of the message: in the completion, in the ring, placed.
class KilledSender : public testing::TestWithParam<std::size_t> {};

/// `meanwhile`: see kill_after().
void expect_no_loss(std::size_t bytes, unsigned parts, unsigned meanwhile) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [&] {
    Random random{start};
    SharedReceives server{bytes};
    const unsigned whole = server.kill_after(kEndless);
    ASSERT_LT(whole, kEndless);
    // Each part of the call gets a turn, at a random point. The last ones complete the message.
    for (unsigned part = 0; part < parts; ++part)
      static_cast<void>(server.kill_after(
          static_cast<unsigned>((std::uint64_t{part} * whole + random.up_to(whole)) / parts),
          meanwhile));
    EXPECT_TRUE(server.serve_good_client())
        << server.came() << " of " << kDepth << " receives are left after " << parts
        << " kills within " << whole << " instructions";
  });
}

TEST_P(KilledSender, LosesNoReceiveOfASharedQueue) {
  expect_no_loss(GetParam(), 30 * stress_factor(), 0);
}

// The ring of receives goes round while the dead client holds a place in it.
TEST_P(KilledSender, LosesNoReceiveWhileOthersGoOn) {
  expect_no_loss(GetParam(), 20 * stress_factor(), 4 * kDepth);
}

INSTANTIATE_TEST_SUITE_P(Bytes, KilledSender, testing::Values(16, 1000, 8000),
                         [](const auto& each) { return std::to_string(each.param); });

}  // namespace
}  // namespace verbatim::test
