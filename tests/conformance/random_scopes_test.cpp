// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever happens inside a scope and to the device, nothing hangs, every operation's result
//       is seen exactly once, and no credit is lost: the channel is as before, or it is broken,
//       gives the reason, and can be recycled.
// Method: a thousand random scopes (times VERBATIM_STRESS) of posts, batches, waits, polls, nested
//         scopes, errors and exceptions; on the software device with random fault plans. Every
//         write carries a number to a separate place, so that reports can be compared with what
//         happened. The same seed must give the same outcomes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "support/soft_faults.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kDepth = 16;
constexpr std::size_t kPlaces = 256;  ///< Writes of one scope.
constexpr std::size_t kScopes = 1000;

enum class Trouble : std::uint8_t { none, repeatable, any };

soft::FaultPlan random_plan(Random& random, Trouble trouble) {
  soft::FaultPlan plan;
  if (trouble == Trouble::none || random.up_to(2) != 0) return plan;
  const std::uint64_t at = 1 + random.up_to(12);
  switch (random.up_to(trouble == Trouble::any ? 7 : 4)) {
    case 0: plan.drop(at); break;
    case 1: plan.drop(at, 100); break;  // More often than it is retried.
    case 2: plan.delay(at, 2ms); break;
    case 3: plan.no_receive(at, 2); break;
    case 4: plan.fail(at, WorkStatus::remote_operation); break;
    case 5: plan.port_down(at, 3ms); break;
    case 6: plan.overrun(at); break;
    default: plan.remove_device(at); break;
  }
  return plan;
}

bool removes_device(const soft::FaultPlan& plan) {
  return std::ranges::any_of(plan.operations, [](const soft::Fault& fault) {
    return fault.kind == soft::FaultKind::remove_device;
  });
}

struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("on purpose") {}
};

/// Two connected channels, and memory for them.
struct World {
  explicit World(Trouble trouble)
      // Which post finds a full queue depends on when completions arrive.
      : sends(trouble == Trouble::repeatable ? 2 * kPlaces : kDepth),
        // A message that was lost once arrives, however slow the machine is. Without faults none
        // is lost.
        ack_timeout(trouble == Trouble::none  ? 1s
                    : trouble == Trouble::any ? 1ms
                                              : 60ms),
        // What the device ends by itself must not end in another way because a thread is held up.
        timeout(trouble == Trouble::any ? 1s : kPatience),
        domain(require(open_context().allocate_domain())),
        window(require(domain.allocate_shared(8 * kPlaces, Access::remote_write))),
        source(require(domain.allocate(8 * kPlaces))),
        sink(require(domain.allocate(64))) {
    auto a = require(PreparedChannel::create(domain, options()));
    join(std::move(a), require(PreparedChannel::create(domain, options())));
  }
  [[nodiscard]] ChannelOptions options() const {
    return {.max_sends = sends,
            .max_receives = kDepth,
            .timeout = timeout,
            .flush_timeout = 200ms,
            .ack_timeout = require(AckTimeout::at_least(ack_timeout)),
            .max_ack_retries = require(MaxAckRetries::limited(4))};
  }
  void join(PreparedChannel a, PreparedChannel b) {
    const Endpoint first = a.endpoint();
    const Endpoint second = b.endpoint();
    left = require(std::move(a).connect(second));
    right = require(std::move(b).connect(first));
  }
  /// Ends both and connects them again. Returns false if the device is gone.
  [[nodiscard]] bool recycle() {
    left->cancel();
    right->cancel();
    receiving.clear();
    auto a = std::move(*left).recycle();
    auto b = std::move(*right).recycle();
    for (const auto* each : {&a, &b})
      if (!*each) {
        EXPECT_TRUE(each->error() == Errc::device_failed || each->error() == Errc::not_found ||
                    each->error() == Errc::driver)
            << to_string(each->error());
        return false;
      }
    join(*std::move(a), *std::move(b));
    return true;
  }
  /// Allocates memory for a number. Empty: the device is gone, and registers nothing.
  [[nodiscard]] std::optional<Buffer> room() const {
    auto buffer = domain.allocate(8);
    if (buffer) return *std::move(buffer);
    EXPECT_EQ(buffer.error().os_error, EIO) << to_string(buffer.error());
    return std::nullopt;
  }
  /// Posts receives, so that every send of a scope finds one. False: the device is gone.
  [[nodiscard]] bool post_receives() {
    std::erase_if(receiving, [](Pending<Buffer>& each) { return each.ready(); });
    while (receiving.size() < kDepth) {
      auto buffer = room();
      if (!buffer) return false;
      receiving.push_back(right->receive(*std::move(buffer)));
      if (!receiving.back().posted()) {
        receiving.pop_back();
        return true;
      }
    }
    return true;
  }
  [[nodiscard]] GatherElement number(std::size_t place) { return source.gather(8 * place, 8); }
  [[nodiscard]] RemoteMemoryRegion place(std::size_t index) {
    return *window.remote().sub_region(8 * index, 8);
  }

  std::uint32_t sends;
  std::chrono::milliseconds ack_timeout;
  std::chrono::seconds timeout;
  ProtectionDomain domain;
  SharedRegion window;
  Buffer source;
  Buffer sink;
  std::optional<Channel> left;
  std::optional<Channel> right;
  std::vector<Pending<Buffer>> receiving;
};

/// One scope, and the scopes inside it.
class RandomScope {
 public:
  RandomScope(World& world, Random& random, Trouble trouble, std::string& trace)
      : world_(world), random_(random), trouble_(trouble), trace_(trace) {}

  /// Runs the scope and checks its accounts.
  void run() {
    for (std::size_t i = 0; i < kPlaces; ++i) {
      const std::uint64_t value = random_.next() | 1;
      std::memcpy(world_.source.bytes().data() + 8 * i, &value, 8);
      world_.window.store_release<std::uint64_t>(8 * i, 0);
    }
    const auto start = std::chrono::steady_clock::now();
    run_one(0);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience) << "far too long";
    for (const std::size_t place : reported_good_)
      EXPECT_TRUE(landed(place)) << "a write that was reported as done was not done";
  }

 private:
  struct Posted {
    Operation operation;
    std::vector<std::size_t> places;  ///< Of its writes; empty for a send.
    bool waited = false;
  };
  struct Level {
    std::vector<Posted> handles;
    std::vector<std::vector<std::size_t>> detached;
    std::size_t detached_sends = 0;
  };

  [[nodiscard]] bool landed(std::size_t place) {
    std::uint64_t wanted = 0;
    std::memcpy(&wanted, world_.source.bytes().data() + 8 * place, 8);
    return world_.window.load_acquire<std::uint64_t>(8 * place) == wanted;
  }
  [[nodiscard]] std::optional<std::size_t> next_place() {
    if (used_ == kPlaces) return std::nullopt;
    return used_++;
  }

  void note(char kind, bool good) {
    trace_ += kind;
    trace_ += good ? '+' : '-';
  }

  void take(Scope& scope, Posted& posted, char kind, const Result<Completion>& result) {
    note(kind, result.has_value());
    if (result)
      reported_good_.insert(reported_good_.end(), posted.places.begin(), posted.places.end());
    posted.waited = true;
    if (posted.operation.posted()) {
      EXPECT_TRUE(fails_with(scope.wait(posted.operation), Errc::stale)) << "it was seen twice";
    }
  }

  void post_one(Scope& scope, Level& level, bool detached) {
    if (random_.up_to(3) == 0 && sends_ < kDepth) {
      ++sends_;
      if (detached) {
        scope.post_detached(Send{world_.number(0)});
        ++level.detached_sends;
      } else {
        level.handles.push_back({scope.post(Send{world_.number(0)}), {}});
      }
      return;
    }
    const auto place = next_place();
    if (!place) return;
    const Write<1> work{world_.number(*place), world_.place(*place)};
    if (detached) {
      scope.post_detached(work);
      level.detached.push_back({*place});
    } else {
      level.handles.push_back({scope.post(work), {*place}});
    }
  }

  void post_batch(Scope& scope, Level& level) {
    std::vector<Write<1>> works;
    std::vector<std::size_t> places;
    for (std::size_t i = random_.up_to(5); i > 0; --i)
      if (const auto place = next_place()) {
        works.push_back({world_.number(*place), world_.place(*place)});
        places.push_back(*place);
      }
    if (works.empty()) return;
    level.handles.push_back({scope.post(std::span<const Write<1>>{works}), std::move(places)});
  }

  void step(Scope& scope, Level& level, unsigned depth) {
    Posted* const some =
        level.handles.empty() ? nullptr : &level.handles[random_.up_to(level.handles.size() - 1)];
    switch (random_.up_to(11)) {
      case 0:
      case 1:
      case 2: return post_one(scope, level, false);
      case 3:
      case 4: return post_one(scope, level, true);
      case 5: return post_batch(scope, level);
      case 6:
      case 7:
        if (some != nullptr && !some->waited) take(scope, *some, 'w', scope.wait(some->operation));
        return;
      case 8:
        if (some == nullptr || some->waited) return;
        if (const auto result = scope.poll(some->operation))
          take(scope, *some, 'w', *result);
        else if (trouble_ == Trouble::repeatable)  // Whether it is there already is chance.
          take(scope, *some, 'w', scope.wait(some->operation));
        return;
      case 9:
        if (some == nullptr || some->waited) return;
        // Whether it failed or not, it is there now, or the channel is over.
        static_cast<void>(scope.wait_any({&some->operation, 1}));
        return;
      case 10:
        if (depth < 2) run_one(depth + 1);
        return;
      default: {  // An owned operation, dropped.
        const auto place = next_place();
        if (!place) return;
        auto buffer = world_.room();
        if (!buffer) return;
        const auto dropped = world_.left->write(*std::move(buffer), world_.place(*place));
      }
    }
  }

  void run_one(unsigned depth) {
    Level level;
    const std::uint64_t end = random_.up_to(9);
    const std::uint64_t steps = 1 + random_.up_to(14);
    try {
      const auto outcome = world_.left->scope([&](Scope& scope) -> Result<void> {
        for (std::uint64_t i = 0; i < steps; ++i) step(scope, level, depth);
        if (end == 0) {
          thrown_ = true;
          throw Stopped{};
        }
        if (end == 1) return std::unexpected(Error{.code = Errc::malformed});
        return {};
      });
      check_books(level, outcome, end == 1);
    } catch (const Stopped&) {
      EXPECT_TRUE(thrown_) << "nobody threw it";
      trace_ += '!';
      if (depth > 0 && random_.up_to(1) == 0) throw;
      thrown_ = false;
    }
  }

  /// Work that nobody waited for either failed, and is in the error, or was done.
  void check_books(const Level& level, const ScopeResult<void>& outcome, bool failed) {
    const std::size_t errors = outcome ? 0 : outcome.error().operations.size();
    if (!outcome) {
      EXPECT_EQ(outcome.error().closure.has_value(), failed);
    }
    EXPECT_TRUE(!failed || !outcome);
    EXPECT_TRUE(outcome || failed || errors > 0);
    std::size_t open = level.detached_sends;
    std::size_t writes = 0;
    std::size_t done = 0;
    const auto count = [&](const std::vector<std::size_t>& places) {
      ++open;
      if (places.empty()) return;
      ++writes;
      if (std::ranges::all_of(places, [&](std::size_t each) { return landed(each); })) ++done;
    };
    for (const Posted& each : level.handles)
      if (!each.waited) count(each.places);
    for (const auto& each : level.detached) count(each);
    EXPECT_LE(errors, open) << "more failures than operations";
    EXPECT_GE(done + errors, writes) << "an operation is lost: neither done nor failed";
    note('s', outcome.has_value());
    // How many requests were on their way when the first failed depends on timing.
    if (outcome.has_value()) trace_ += std::to_string(errors);
  }

  World& world_;
  Random& random_;
  Trouble trouble_;
  std::string& trace_;
  std::size_t used_ = 0;
  std::size_t sends_ = 0;
  bool thrown_ = false;
  std::vector<std::size_t> reported_good_;
};

struct Tally {
  std::size_t recycled = 0;
  std::size_t rebuilt = 0;
};

/// Runs `count` scopes. Returns the outcomes as text.
std::string run_scopes(std::uint64_t seed, std::size_t count, Trouble trouble, Tally& tally) {
  Random random{seed};
  std::string trace;
  std::optional<World> world;
  for (std::size_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("scope " + std::to_string(i) + ", seed " + std::to_string(seed));
    if (!world) world.emplace(trouble);
    if (!world->post_receives()) {
      ++tally.rebuilt;
      world.reset();
      continue;
    }
    {
      const soft::FaultPlan plan = random_plan(random, trouble);
      const Faults faults{plan, seed + i};
      RandomScope{*world, random, trouble, trace}.run();
      // A device that is gone refuses everything, but the event that says so comes a little later.
      // Hundreds of scopes would run meanwhile, and do nothing.
      const bool is_gone = removes_device(plan) && !world->room();
      // Dropped operations return their places when they complete.
      EXPECT_TRUE(eventually([&] {
        static_cast<void>(world->left->poll());
        static_cast<void>(world->right->poll());
        return world->left->cause() || (!is_gone && world->left->free_sends() == world->sends);
      })) << "a credit of the send queue is lost, or the end of the device is not noticed";
    }
    const bool broken = world->left->cause() || world->right->cause();
    trace += broken ? "B\n" : "\n";
    if (!broken) {
      EXPECT_EQ(world->left->free_receives(), kDepth);
      continue;
    }
    ++tally.recycled;
    if (world->recycle()) {
      EXPECT_EQ(world->left->free_sends(), world->sends);
      EXPECT_EQ(world->left->free_receives(), kDepth);
      EXPECT_EQ(world->right->free_receives(), kDepth);
      continue;
    }
    ++tally.rebuilt;
    world.reset();
  }
  return trace;
}

TEST(RandomScopes, LoseNothing) {
  Tally tally;
  const auto trace = run_scopes(test_seed(), kScopes * stress_factor(), Trouble::none, tally);
  EXPECT_EQ(tally.recycled, 0u) << "nothing went wrong, and yet the channel broke";
}

TEST(RandomScopes, LoseNothingIfAnythingFails) {
  if (!on_soft_device()) GTEST_SKIP() << "the device has no fault plans";
  Tally tally;
  const auto trace = run_scopes(test_seed(), kScopes * stress_factor(), Trouble::any, tally);
  EXPECT_GT(tally.recycled, kScopes / 50) << "the plans did nothing";
  EXPECT_GT(tally.rebuilt, 0u);
}

TEST(RandomScopes, OfOneSeedHaveOneOutcome) {
  if (!on_soft_device()) GTEST_SKIP() << "only the software device does the same twice";
  const std::uint64_t seed = test_seed();
  Tally tally;
  const std::string first = run_scopes(seed, kScopes / 10, Trouble::repeatable, tally);
  EXPECT_EQ(first, run_scopes(seed, kScopes / 10, Trouble::repeatable, tally));
  EXPECT_NE(first, run_scopes(seed + 1, kScopes / 10, Trouble::repeatable, tally));
}

}  // namespace
}  // namespace verbatim::test
