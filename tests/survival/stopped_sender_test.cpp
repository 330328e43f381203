// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a sender that is stopped at any instruction of a send holds up nobody else who sends to the
//       same queues, and its message is not lost: it comes, once, when the sender goes on. A sender
//       of datagrams may also be killed at any instruction: no receive is lost with it.
// Method: a client sends one message instruction by instruction, and is stopped after some number
//         of them, spread over the whole call. Meanwhile another client sends to the same
//         completion queue and, if there is one, to the same shared receive queue.
// Covers: soft/late_rings.cpp
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

constexpr std::size_t kGrhBytes = 40;  // What a datagram's receive begins with.
constexpr std::size_t kPlaceBytes = 8192 + kGrhBytes;
constexpr std::uint32_t kReceives = 32;
constexpr unsigned kOnOrder = 8;  // Of the other client, at a time.
constexpr unsigned kAllSteps = 1'000'000;
constexpr std::uint64_t kStopped = 3;  // What each client sends.
constexpr std::uint64_t kOther = 5;

/// A client's end of a connection, or of a pair of datagram queues.
class StepSender {
 public:
  StepSender(const char* type, std::size_t bytes, std::uint64_t content)
      : bytes_(bytes), source_(require(domain_.allocate(kPlaceBytes))) {
    fill(source_.bytes(), content);
    QueuePairOptions options = queue_pair_options(domain_, queue_, queue_);
    be_patient(options);
    if (type == std::string_view{"datagrams"}) {
      options.type = QueuePairType::unreliable_datagram;
      auto prepared = require(QueuePair::prepare(options));
      peer_ = require(decode_endpoint(link.receive()));
      queue_pair_ = require(std::move(prepared).activate());
      to_ = require(queue_pair_->address_handle(*peer_));
    } else {
      queue_pair_ = std::move(meet(link, options).queue_pair);
    }
  }
  void post() {
    const auto bytes = source_.gather(0, bytes_);
    require(to_ ? unsafe::post(*queue_pair_,
                               Datagram{bytes, *to_, peer_->queue_pair, peer_->queue_key}, WrId{1})
                : unsafe::post(*queue_pair_, Send{bytes}, WrId{1}));
  }
  void finish() { poll_ok(queue_); }

  Link link{kFirstLinkFd};

 private:
  std::size_t bytes_;
  ProtectionDomain domain_ = require(open_context().allocate_domain());
  CompletionQueue queue_ = completion_queue(domain_.context());
  Buffer source_;
  std::optional<QueuePair> queue_pair_;
  std::optional<Endpoint> peer_;
  std::optional<AddressHandle> to_;
};

/// Sends some messages to warm up, and one in single steps. Arguments: type, bytes, how many. Link:
/// to the receiver.
int play_one_message(const std::vector<std::string>& role) {
  StepSender sender{role.at(1).c_str(), std::stoul(role.at(2)), kStopped};
  for (int i = std::stoi(role.at(3)); i > 0; --i) {
    sender.post();
    sender.finish();
  }
  sender.link.barrier();
  let_steps_begin();
  sender.post();
  let_steps_end();
  sender.finish();
  return 0;
}
const Role kOneMessage{"one-message", &play_one_message};

/// Sends some messages on each order. Arguments and link: likewise. Receives: g. Sends: d.
int play_messages_on_order(const std::vector<std::string>& role) {
  const Control control{kControlFd};
  StepSender sender{role.at(1).c_str(), std::stoul(role.at(2)), kOther};
  while (control.hear(kStuck) == 'g') {
    for (unsigned i = 0; i < kOnOrder; ++i) {
      sender.post();
      sender.finish();
    }
    control.say('d');
  }
  return 0;
}
const Role kMessagesOnOrder{"messages-on-order", &play_messages_on_order};

struct StopCase {
  const char* type;  ///< connected or datagrams
  bool shared;       ///< The receives belong to a shared queue.
  std::size_t bytes;
  unsigned warm_up = 1;  ///< The fast path begins after a few.

  [[nodiscard]] bool is_datagram() const { return type == std::string_view{"datagrams"}; }
};

/// Everything that clients send goes through one completion queue.
class StepReceiver {
 public:
  explicit StepReceiver(const StopCase& which) : which_(which) {
    if (which.shared) {
      srq_ = require(domain_.create_shared_receive_queue({.max_requests = kReceives}));
      for (std::uint64_t place = 0; place < kReceives; ++place) post(place, nullptr);
    }
  }
  struct Client {
    Process process;
    Link link;
    QueuePair* queue_pair;
  };
  /// `at`: for datagrams, the queue pair to which they go. Otherwise each has its own.
  [[nodiscard]] Client start(const char* role, std::size_t at) {
    const auto [here, there] = socket_pair();
    Process process = Process::start(
        {role, which_.type, std::to_string(which_.bytes), std::to_string(which_.warm_up)}, {there});
    Link link{here};
    if (which_.is_datagram()) {
      while (datagrams_.size() <= at) add_datagrams();
      link.send(encode(datagrams_[at].second));
      return {std::move(process), std::move(link), datagrams_[at].first.get()};
    }
    QueuePairOptions wanted = options();
    be_patient(wanted);
    connected_.push_back(std::make_unique<QueuePair>(std::move(meet(link, wanted).queue_pair)));
    give_receives(*connected_.back());
    return {std::move(process), std::move(link), connected_.back().get()};
  }
  /// Takes what comes until `done`.
  template <class Done>
  [[nodiscard]] bool take_until(Done done) {
    return eventually([&] { return take_one(), done(); });
  }
  /// Takes what comes until nothing has come for so long.
  void take_the_rest(std::chrono::milliseconds quiet) {
    for (auto until = std::chrono::steady_clock::now() + quiet;;) {
      const auto now = std::chrono::steady_clock::now();  // Before the look, as this thread may be
                                                          // held up after it.
      if (take_one())
        until = now + quiet;
      else if (now >= until)
        return;
    }
  }
  /// Takes what the other client sends on order, until so many of its messages have come. Datagrams
  /// are lost until a lock is replaced that a stopped process holds, and while there are too few
  /// receives. How many, depends on how soon this process gets a processor: so there are more
  /// orders.
  [[nodiscard]] bool take_from(const Client& other, unsigned count) {
    const Control& control = other.process.control();
    others = 0;
    control.say('g');
    bool is_sending = true;
    return take_until([&] {
      if (is_sending && control.overhear() != 'd') return false;
      is_sending = false;
      take_the_rest(0ms);
      if (others >= count) return true;
      if (which_.is_datagram()) {
        control.say('g');
        is_sending = true;
      }
      return false;
    });
  }
  [[nodiscard]] unsigned warm_up() const { return which_.warm_up; }
  /// What came since the last call.
  unsigned stopped_ones = 0;
  unsigned others = 0;
  bool is_reposting = true;

 private:
  void add_datagrams() {
    QueuePairOptions wanted = options();
    wanted.type = QueuePairType::unreliable_datagram;
    auto prepared = require(QueuePair::prepare(wanted));
    const Endpoint here = prepared.endpoint();
    datagrams_.emplace_back(std::make_unique<QueuePair>(require(std::move(prepared).activate())),
                            here);
    give_receives(*datagrams_.back().first);
  }
  [[nodiscard]] QueuePairOptions options() {
    QueuePairOptions options = queue_pair_options(domain_, queue_, queue_);
    if (srq_) {
      options.shared_receive_queue = *srq_;
      options.max_receive_requests = {};
    }
    return options;
  }
  void give_receives(QueuePair& to) {
    for (unsigned i = 0; !srq_ && i < kOnOrder; ++i) post(next_place_++, &to);
  }
  void post(std::uint64_t place, QueuePair* to) {
    if (owners_.size() <= place) owners_.resize(place + 1);
    owners_[place] = to;
    while (sinks_.size() * kReceives <= place)
      sinks_.push_back(require(domain_.allocate(kReceives * kPlaceBytes)));
    const Receive work{
        sinks_[place / kReceives].scatter(place % kReceives * kPlaceBytes, kPlaceBytes)};
    require(to == nullptr ? unsafe::post(*srq_, work, WrId{place})
                          : unsafe::post(*to, work, WrId{place}));
  }
  bool take_one() {
    std::array<Completion, 1> found;
    if (require(queue_.poll(found)) == 0) return false;
    const auto place = std::to_underlying(found[0].id());
    if (!found[0].ok()) give_up("a receive failed", Where::current());
    const auto came = sinks_[place / kReceives].bytes().subspan(
        place % kReceives * kPlaceBytes + (which_.is_datagram() ? kGrhBytes : 0), which_.bytes);
    if (holds(came, kStopped))
      ++stopped_ones;
    else if (holds(came, kOther))
      ++others;
    else
      give_up("neither message", Where::current());
    std::ranges::fill(came, std::byte{0});
    if (is_reposting) post(place, owners_[place]);
    return true;
  }

  StopCase which_;
  ProtectionDomain domain_ = require(open_context().allocate_domain());
  CompletionQueue queue_ = completion_queue(domain_.context(), 8192);
  std::optional<SharedReceiveQueue> srq_;
  std::vector<Buffer> sinks_;
  std::vector<QueuePair*> owners_;
  std::uint64_t next_place_ = 0;
  std::vector<std::unique_ptr<QueuePair>> connected_;
  std::vector<std::pair<std::unique_ptr<QueuePair>, Endpoint>> datagrams_;
};

/// A client that has sent one message, and is about to send the next one in steps.
[[nodiscard]] StepReceiver::Client start_stepped(StepReceiver& receiver) {
  receiver.stopped_ones = receiver.others = 0;
  StepReceiver::Client client = receiver.start("one-message", 0);
  EXPECT_TRUE(receiver.take_until([&] { return receiver.stopped_ones == receiver.warm_up(); }));
  client.link.barrier();
  if (!wait_for_steps(client.process.pid())) cannot("tracing a child");
  receiver.stopped_ones = 0;
  return client;
}

/// The number of instructions of part `part` of a call, at random within it.
unsigned moment(Random& random, unsigned part, unsigned parts, unsigned whole) {
  return static_cast<unsigned>((std::uint64_t{part} * whole + random.up_to(whole)) / parts);
}

/// How many instructions the call takes.
[[nodiscard]] unsigned length_of_call(StepReceiver& receiver) {
  StepReceiver::Client client = start_stepped(receiver);
  const unsigned whole = step(client.process.pid(), kAllSteps);
  client.process.kill();
  EXPECT_LT(whole, kAllSteps);
  receiver.take_the_rest(0ms);
  return whole;
}

class StoppedSender : public testing::TestWithParam<StopCase> {};

TEST_P(StoppedSender, HoldsUpNobodyAndLosesNothing) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [&] {
    Random random{start};
    StepReceiver receiver{GetParam()};
    const unsigned whole = length_of_call(receiver);
    StepReceiver::Client other = receiver.start("messages-on-order", 1);
    const unsigned parts = 24 * stress_factor();
    for (unsigned part = 0; part < parts; ++part) {
      StepReceiver::Client stopped = start_stepped(receiver);
      const unsigned steps = moment(random, part, parts, whole);
      SCOPED_TRACE(std::to_string(steps) + " of " + std::to_string(whole) + " instructions");
      const bool was_inside = step(stopped.process.pid(), steps) == steps;
      ASSERT_TRUE(receiver.take_from(other, kOnOrder))
          << receiver.others << " messages of another client came";
      if (was_inside)
        run_to_end_of_steps(stopped.process.pid());
      else  // The call was shorter this time.
        ptrace(PTRACE_CONT, stopped.process.pid(), nullptr, nullptr);
      EXPECT_EQ(stopped.process.wait_for_end(), 0);
      // A datagram is lost if its sender finds, when it goes on, that the lock was replaced.
      if (!GetParam().is_datagram()) {
        EXPECT_TRUE(receiver.take_until([&] { return receiver.stopped_ones > 0; }))
            << "the message of the stopped client did not come";
      }
      receiver.take_the_rest(20ms);
      ASSERT_LE(receiver.stopped_ones, 1u);
    }
  });
}

/// For connections see killed_sender_test.cpp: their receives come back with the queue pair.
class KilledDatagramSender : public testing::TestWithParam<StopCase> {};

TEST_P(KilledDatagramSender, LosesNoReceive) {
  const std::uint64_t start = seed();
  SCOPED_TRACE(replay(start));
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck * stress_factor(), [&] {
    Random random{start};
    StepReceiver receiver{GetParam()};
    const unsigned whole = length_of_call(receiver);
    // Datagrams of both go to one queue pair, which lives on.
    StepReceiver::Client other = receiver.start("messages-on-order", 0);
    // More than there are receives.
    const unsigned parts = (kReceives + 8) * stress_factor();
    for (unsigned part = 0; part < parts; ++part) {
      StepReceiver::Client killed = start_stepped(receiver);
      static_cast<void>(step(killed.process.pid(), moment(random, part, parts, whole)));
      killed.process.kill();
      ASSERT_TRUE(receiver.take_from(other, kOnOrder))
          << receiver.others << " messages of another client came in round " << part;
    }
    // Every receive is still there.
    receiver.is_reposting = false;
    const unsigned left = GetParam().shared ? kReceives : kOnOrder;
    EXPECT_TRUE(receiver.take_from(other, left) && receiver.others == left)
        << receiver.others << " of " << left << " receives are left";
  });
}

std::string name_of_stop(const testing::TestParamInfo<StopCase>& each) {
  return std::string{each.param.type} + (each.param.shared ? "_shared_" : "_own_") +
         std::to_string(each.param.bytes);
}

INSTANTIATE_TEST_SUITE_P(Ways, KilledDatagramSender,
                         testing::Values(StopCase{"datagrams", false, 16},
                                         StopCase{"datagrams", false, 1000},
                                         StopCase{"datagrams", true, 16},
                                         StopCase{"datagrams", true, 1000}),
                         name_of_stop);

INSTANTIATE_TEST_SUITE_P(
    Ways, StoppedSender,
    testing::Values(StopCase{"connected", false, 16, 5}, StopCase{"connected", false, 1000},
                    StopCase{"connected", false, 8000}, StopCase{"connected", true, 16},
                    StopCase{"connected", true, 1000}, StopCase{"datagrams", false, 16},
                    StopCase{"datagrams", false, 1000}, StopCase{"datagrams", true, 1000}),
    name_of_stop);

}  // namespace
}  // namespace verbatim::test
