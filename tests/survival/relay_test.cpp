// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: if the owner copies for others, the death of one requester does not spoil the data of the
//       next, and requesters wait for an owner that pauses as long as the timers allow.
// Method: VERBATIM_SOFT_MEMORY=relay; requesters that are killed at random moments and at chosen
//         instructions, of their own and of the owner's; others that check every byte; an owner
//         that is stopped for three seconds.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "soft/completer/completion_queue.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/layout.hpp"
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

constexpr std::size_t kArea = 20'000;  // Of one requester: several pieces for a relay.
constexpr std::size_t kPiece = 4000;   // What it carries at once.
constexpr std::byte kFirst{0x11};
constexpr std::byte kSecond{0x22};

class RelayOnly {
 public:
  RelayOnly() { setenv("VERBATIM_SOFT_MEMORY", "relay", 1); }
  RelayOnly(const RelayOnly&) = delete;
  RelayOnly& operator=(const RelayOnly&) = delete;
  ~RelayOnly() { unsetenv("VERBATIM_SOFT_MEMORY"); }
};

/// Writes to its area and reads it back, until it is killed or gets the order to stop. Arguments:
/// which area; endless, stepped, or how often. Link: to the owner. Sends: d.
int play_relayed(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  be_patient(options);
  Meeting with = meet(link, options);
  const auto area = with.peer_memory.sub_region(std::stoul(role.at(1)) * kArea, kArea).value();
  Buffer memory = require(domain.allocate(2 * kArea));
  const auto write = [&](std::size_t bytes) {
    require(unsafe::post(with.queue_pair,
                         Write{memory.gather(0, bytes), area.sub_region(0, bytes).value()},
                         WrId{1}));
  };
  if (role.at(2) == "stepped") {
    fill(memory.bytes(), 1);
    write(4000);
    poll_ok(queue);
    let_steps_begin();
    write(4000);
    let_steps_end();
    return 0;
  }
  const bool endless = role.at(2) == "endless";
  if (endless) control.say('b');
  for (int round = 0; endless || round < std::stoi(role.at(2)); ++round) {
    fill(memory.bytes().first(kArea), static_cast<std::uint64_t>(round));
    write(kArea);
    poll_ok(queue);
    require(unsafe::post(with.queue_pair, Read{memory.scatter(kArea, kArea), area}, WrId{2}));
    poll_ok(queue);
    if (!holds(memory.bytes().last(kArea), static_cast<std::uint64_t>(round))) {
      control.say('w');
      return 1;
    }
  }
  control.say('d');
  link.wait_for_end();
  return 0;
}
const Role kRelayed{"relayed", &play_relayed};

/// Memory that others reach only through us, with one area for each of two requesters.
class RelayOwner {
 public:
  RelayOwner() { std::ranges::fill(memory_, std::byte{0}); }
  struct Requester {
    Process process;
    Link link;
    Meeting with;
  };
  [[nodiscard]] Requester start(const char* area, const std::string& how) {
    EXPECT_FALSE(poll_within(queue_, 0s)) << "an empty queue has room for the next one";
    const auto [here, there] = socket_pair();
    Process process = Process::start({"relayed", area, how}, {there});
    Link link{here};
    QueuePairOptions options = queue_pair_options(domain_, queue_, queue_);
    be_patient(options);
    Meeting with = meet(link, options, shared_.remote());
    return {std::move(process), std::move(link), std::move(with)};
  }
  /// Checks what the requester of the second area left: the last of `rounds` writes.
  void check_second(int rounds) {
    EXPECT_TRUE(holds(std::span{memory_}.last(kArea), static_cast<std::uint64_t>(rounds - 1)));
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * kArea);
  ProtectionDomain domain_ = require(open_context().allocate_domain());
  CompletionQueue queue_ = completion_queue(domain_.context());
  SharedRegion shared_ = require(domain_.register_shared(memory_));
};

/// In each round the first requester is disturbed at a random moment; then a second one has its
/// turn, `turns` writes long.
template <class Disturb>
void disturb_first_requester(int turns, const Disturb& disturb) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  const RelayOnly relay;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [&] {
    Random random{start};
    RelayOwner owner;
    for (unsigned round = 0; round < 15 * stress_factor(); ++round) {
      RelayOwner::Requester first = disturb(owner, random);
      const RelayOwner::Requester next = owner.start("1", std::to_string(turns));
      ASSERT_EQ(next.process.control().hear(), 'd') << "round " << round;
      owner.check_second(turns);
      first.process.kill();
    }
  });
}

/// A requester in the middle of its request.
RelayOwner::Requester stepped_requester(RelayOwner& owner, Random& random) {
  auto requester = owner.start("0", "stepped");
  if (!wait_for_steps(requester.process.pid())) cannot("tracing a child");
  static_cast<void>(step(requester.process.pid(), static_cast<unsigned>(random.up_to(2500))));
  return requester;
}

TEST(Relay, RequesterKilledAtAnyMomentSpoilsNobodysData) {
  disturb_first_requester(3, [](RelayOwner& owner, Random& random) {
    auto victim = owner.start("0", "endless");
    EXPECT_EQ(victim.process.control().hear(), 'b');
    const std::chrono::microseconds moment{random.up_to(4000)};
    std::this_thread::sleep_for(moment);  // wait: the random moment at which the process dies
    victim.process.kill();
    return victim;
  });
}

TEST(Relay, RequesterKilledAtAnyInstructionSpoilsNobodysData) {
  disturb_first_requester(2, [](RelayOwner& owner, Random& random) {
    auto victim = stepped_requester(owner, random);
    victim.process.kill();
    return victim;
  });
}

TEST(Relay, RequesterStoppedAtAnyInstructionIsInNobodysWay) {
  disturb_first_requester(2, &stepped_requester);
}

constexpr std::size_t kFold = 16 << 20;
constexpr std::size_t kLong = 256 << 20;  // Tens of thousands of pieces.

/// Many addresses and few pages: a small file, mapped again and again.
class Folded {
 public:
  explicit Folded(std::size_t folds) : bytes_(folds * kFold) {
    const int file = memfd_create("folded", MFD_CLOEXEC);
    place_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    bool is_made = place_ != MAP_FAILED && ftruncate(file, kFold) == 0;
    for (std::size_t at = 0; is_made && at < bytes_; at += kFold)
      is_made = mmap(place_ + at, kFold, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
                MAP_FAILED;
    ::close(file);
    if (!is_made) give_up("no folded memory", Where::current());
  }
  Folded(const Folded&) = delete;
  Folded& operator=(const Folded&) = delete;
  ~Folded() { munmap(place_, bytes_); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {place_, bytes_}; }

 private:
  std::size_t bytes_;
  std::byte* place_;
};

/// Writes all of the owner's memory in one request, again and again until it is killed; or one
/// word, twenty times, with timers that are shorter than such a request. Arguments: long or short.
/// Link: to the owner. Receives: g. Sends: r, d (done), e (its connection broke).
int play_unequal(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  const bool is_long = role.at(1) == "long";
  if (is_long)
    be_patient(options);
  else
    options.ack_timeout = require(AckTimeout::at_least(100ms));  // About a second in all.
  Meeting with = meet(link, options);
  const Folded memory{is_long ? kLong / kFold : 1};
  const MemoryRegion region = require(domain.register_local(memory.bytes()));
  const auto source = memory.bytes().first(is_long ? kLong : 8);
  control.say('r');
  if (control.hear() != 'g') return 1;
  for (int i = 0; is_long || i < 20; ++i) {
    require(unsafe::post(
        with.queue_pair,
        Write{region.gather(source), with.peer_memory.sub_region(0, source.size()).value()},
        WrId{1}));
    const auto done = poll_within(queue, kStuck);
    if (done && done->ok()) continue;
    control.say('e');
    return 1;
  }
  control.say('d');
  return 0;
}
const Role kUnequal{"unequal", &play_unequal};

/// Whether a short requester does its work beside as many long ones as an owner has boxes for
/// requests.
bool has_its_turn() {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  const Folded memory{kLong / kFold};
  const SharedRegion shared = require(domain.register_shared(memory.bytes()));
  struct Writer {
    Process process;
    Link link;
    Meeting with;
  };
  std::vector<Writer> writers;
  for (std::uint32_t i = 0; i <= engine::kRelayBoxes; ++i) {
    const auto [here, there] = socket_pair();
    Process process =
        Process::start({"unequal", i < engine::kRelayBoxes ? "long" : "short"}, {there});
    Link link{here};
    Meeting with = meet(link, queue_pair_options(domain, queue, queue), shared.remote());
    EXPECT_EQ(process.control().hear(), 'r');
    writers.push_back({std::move(process), std::move(link), std::move(with)});
  }
  for (const Writer& each : std::span{writers}.first(engine::kRelayBoxes))
    each.process.control().say('g');
  for (const engine::RelayBox& box :
       engine::CompletionQueue::of(unsafe::native(queue)).engine->segment().relay)
    EXPECT_TRUE(eventually([&box] { return box.lock.load() != 0; })) << "no long one has it";
  const Control& short_one = writers.back().process.control();
  short_one.say('g');
  const bool is_done = short_one.hear(60s) == 'd';
  // Otherwise the teardown waits for those that are inside.
  for (Writer& each : writers) each.process.kill();
  return is_done;
}

// If a request kept its box for as long as it runs, the short ones would give up. They may also do
// so if the machine takes the owner's processor away for a second, but not each time.
TEST(Relay, ShortRequestsHaveTheirTurnBesideLongOnes) {
  const SoftDirectory directory;
  const RelayOnly relay;
  VERBATIM_CONTAINED(kStuck, [] {
    EXPECT_TRUE(has_its_turn() || has_its_turn() || has_its_turn()) << "the connections broke";
  });
}

/// Owns memory for two, until the order to quit. Arguments: how many requesters. Links: to them.
/// Receives: c, q. Sends: r; for each c, one letter for the content of each area.
int play_relay_owner(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  std::vector<std::byte> memory(2 * kArea);
  const SharedRegion shared = require(domain.register_shared(memory));
  std::vector<Meeting> all;
  for (int i = 0; i < std::stoi(role.at(1)); ++i) {
    Link link{kFirstLinkFd + i};
    all.push_back(meet(link, queue_pair_options(domain, queue, queue), shared.remote()));
  }
  control.say('r');
  while (control.hear() == 'c') {
    const auto tell = [&](std::span<const std::byte> area) {
      const auto count = [&](std::byte value) { return std::ranges::count(area, value); };
      const auto all_of = static_cast<std::ptrdiff_t>(area.size());
      control.say(count(kFirst) == all_of    ? 'f'
                  : count(kSecond) == all_of ? 's'
                  : count(kSecond) == 0      ? 'p'  // A part of the first one's, or nothing.
                                             : 'm');     // Mixed.
    };
    tell(std::span{memory}.first(kPiece));
    tell(std::span{memory}.subspan(kArea, kPiece));
  }
  return 0;
}
const Role kRelayOwner{"relay-owner", &play_relay_owner};

/// Makes one write of a piece, on order. Arguments: which area. Link: to the owner. Receives: g.
/// Sends: r, d.
int play_piece_writer(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  be_patient(options);
  Meeting with = meet(link, options);
  const bool first = role.at(1) == "0";
  Buffer source = require(domain.allocate(kPiece));
  std::ranges::fill(source.bytes(), first ? kFirst : kSecond);
  control.say('r');
  if (control.hear() != 'g') return 1;
  const auto area = with.peer_memory.sub_region(first ? 0 : kArea, kPiece).value();
  require(unsafe::post(with.queue_pair, Write{source.gather(), area}, WrId{1}));
  poll_ok(queue);
  control.say('d');
  return control.hear() == 'q' ? 0 : 1;
}
const Role kPieceWriter{"piece-writer", &play_piece_writer};

/// Kills the first requester after the owner has executed this many instructions of the copy for
/// it. Then the second one writes, and only then does the owner continue.
void replace_requester_after(unsigned instructions) {
  const auto [a, b] = socket_pair();
  const auto [c, d] = socket_pair();
  Process owner = Process::start({"relay-owner", "2"}, {a, c});
  Process first = Process::start({"piece-writer", "0"}, {b});
  Process second = Process::start({"piece-writer", "1"}, {d});
  for (const Process* const each : {&owner, &first, &second})
    ASSERT_EQ(each->control().hear(), 'r');
  pid_t helper = 0;  // It names itself when it begins.
  static_cast<void>(eventually([&] { return (helper = helper_of(owner.pid())) != 0; }));
  if (helper == 0 || !hold(helper)) cannot("holding the thread that copies");
  first.control().say('g');
  step_or_sleep(helper, 1 + instructions);  // The first one ends when it is woken.
  first.kill();
  second.control().say('g');
  std::this_thread::sleep_for(20ms);  // wait: the second one asks, and nobody answers yet
  let_go(helper);
  ASSERT_EQ(second.control().hear(), 'd');
  owner.control().say('c');
  const char one = owner.control().hear();
  EXPECT_TRUE(one == 'f' || one == 'p') << "the dead one's area: " << one;
  EXPECT_EQ(owner.control().hear(), 's') << "what the second one has written";
}

TEST(Relay, RequesterKilledWhileTheOwnerCopiesSpoilsNobodysData) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  const RelayOnly relay;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [&] {
    Random random{start};
    for (unsigned round = 0; round < 25 * stress_factor(); ++round) {
      // The owner takes the request within the first dozens.
      const auto instructions = static_cast<unsigned>(random.up_to(round % 2 == 0 ? 40 : 400));
      SCOPED_TRACE(std::to_string(instructions) + " instructions");
      ASSERT_NO_FATAL_FAILURE(replace_requester_after(instructions));
      if (testing::Test::HasFailure()) break;
    }
  });
}

TEST(Relay, OwnerThatPausesIsWaitedForAsTheTimersSay) {
  const SoftDirectory directory;
  const RelayOnly relay;
  VERBATIM_CONTAINED(60s, [] {
    const auto [here, there] = socket_pair();
    Process owner = Process::start({"relay-owner", "1"}, {there});
    Link link{here};
    const ProtectionDomain domain = require(open_context().allocate_domain());
    CompletionQueue queue = completion_queue(domain.context());
    QueuePairOptions options = queue_pair_options(domain, queue, queue);
    be_patient(options);  // Seven times four seconds.
    Meeting with = meet(link, options);
    ASSERT_EQ(owner.control().hear(), 'r');
    Buffer source = require(domain.allocate(kPiece));
    std::ranges::fill(source.bytes(), kFirst);
    kill(owner.pid(), SIGSTOP);
    owner.wait_until_stopped();
    std::thread waker{[&] {
      std::this_thread::sleep_for(3s);  // wait: the pause is under test
      owner.resume();
    }};
    const auto area = with.peer_memory.sub_region(0, kPiece).value();
    require(unsafe::post(with.queue_pair, Write{source.gather(), area}, WrId{1}));
    const Completion done = poll_one(queue);
    waker.join();
    EXPECT_TRUE(succeeded(done));
    owner.control().say('c');
    EXPECT_EQ(owner.control().hear(), 'f') << "its memory";
  });
}

constexpr std::size_t kDatagram = 3000;  // Too long to travel in the ring.
constexpr std::uint64_t kShared = 4;     // The receives of the shared queue.

/// Receives datagrams into a shared queue until each of its receives was used. Link: to the sender.
/// Sends: r, d.
int play_datagram_owner(const std::vector<std::string>&) {
  const Control control{kControlFd};
  Link link{kFirstLinkFd};
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context());
  SharedReceiveQueue shared =
      require(domain.create_shared_receive_queue({.max_requests = kShared}));
  Buffer sink = require(domain.allocate(kShared * 4096));
  for (std::uint64_t id = 0; id < kShared; ++id)
    require(unsafe::post(shared, Receive{sink.scatter(id * 4096, 4096)}, WrId{id}));
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
  options.type = QueuePairType::unreliable_datagram;
  options.shared_receive_queue = shared;
  options.max_receive_requests.reset();
  auto prepared = require(QueuePair::prepare(options));
  link.send(encode(prepared.endpoint()));
  const QueuePair queue_pair = require(std::move(prepared).activate());
  control.say('r');
  for (std::uint64_t used = 0; used < kShared; ++used) poll_ok(queue);
  control.say('d');
  return control.hear() == 'q' ? 0 : 1;
}
const Role kDatagramOwner{"datagram-owner", &play_datagram_owner};

// Datagrams may be lost while their receiver is stopped, but not its receives.
TEST(Relay, OwnerThatPausesKeepsTheReceivesOfLostDatagrams) {
  const SoftDirectory directory;
  const RelayOnly relay;
  VERBATIM_CONTAINED(60s, [] {
    const auto [here, there] = socket_pair();
    Process owner = Process::start({"datagram-owner"}, {there});
    Link link{here};
    const ProtectionDomain domain = require(open_context().allocate_domain());
    CompletionQueue queue = completion_queue(domain.context());
    QueuePairOptions options = queue_pair_options(domain, queue, queue);
    options.type = QueuePairType::unreliable_datagram;
    QueuePair queue_pair = require(require(QueuePair::prepare(options)).activate());
    const Endpoint peer = require(decode_endpoint(link.receive()));
    const AddressHandle handle = require(queue_pair.address_handle(peer));
    Buffer source = require(domain.allocate(kDatagram));
    const auto send = [&] {
      require(unsafe::post(
          queue_pair, Datagram{source.gather(), handle, peer.queue_pair, peer.queue_key}, WrId{1}));
      poll_ok(queue);
    };
    ASSERT_EQ(owner.control().hear(), 'r');
    kill(owner.pid(), SIGSTOP);
    owner.wait_until_stopped();
    for (std::uint64_t i = 0; i < kShared; ++i) send();
    owner.resume();
    std::optional<char> word;
    EXPECT_TRUE(eventually(
        [&] {
          send();
          return (word = owner.control().overhear()).has_value();
        },
        10s))
        << "some of its receives were never used";
    EXPECT_EQ(word, 'd');
    owner.control().say('q');
  });
}

}  // namespace
}  // namespace verbatim::test
