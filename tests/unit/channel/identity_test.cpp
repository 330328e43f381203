// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel tells what it is and what happened to it, the log shows its life, and each
//       operation has the id under which the device knows it.
// Method: a scripted device, whose requests are compared.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "support/scripted_device.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class Identity : public ScriptedDevice {
 protected:
  /// "RC queue pair 0x000040 on null0 port 1", for the one that was created last.
  [[nodiscard]] static std::string name_of(const Endpoint& endpoint) {
    return "RC queue pair " + number_of(endpoint) + " on null0 port 1";
  }
  [[nodiscard]] static std::string number_of(const Endpoint& endpoint) {
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "0x%06x", std::to_underlying(endpoint.queue_pair));
    return text.data();
  }
};

// ---- Names --------------------------------------------------------------------------------------

TEST_F(Identity, ChannelTellsWhatItIsAndWhyItEnded) {
  auto prepared = prepare({.flush_timeout = 5ms});
  const std::string name = "channel over " + name_of(prepared.endpoint());
  const std::string peer = ", to " + number_of(prepared.endpoint());
  EXPECT_EQ(to_string(prepared), name + ", not connected");
  Channel channel = connect(std::move(prepared));
  EXPECT_EQ(to_string(prepared), "channel, connected or moved from");  // NOLINT: the point
  EXPECT_EQ(to_string(channel), name + peer + ": open");
  EXPECT_TRUE(fails_with(channel.receive(buffer()).wait(0ms).result, Errc::timed_out));
  EXPECT_EQ(to_string(channel), name + peer + ": ended: " + to_string(*channel.cause()));
  Channel moved = std::move(channel);
  EXPECT_EQ(to_string(channel), "channel, moved from");  // NOLINT(bugprone-use-after-move)
}

TEST_F(Identity, ChannelWhoseQueuePairHadToBeDestroyedTellsThat) {
  auto prepared = prepare();
  const std::string name = "channel over " + name_of(prepared.endpoint());
  Channel channel = connect(std::move(prepared));
  script.error_refusal = EIO;
  EXPECT_TRUE(fails_with(channel.receive(buffer()).wait(0ms).result, Errc::timed_out));
  EXPECT_EQ(to_string(channel), name + ", destroyed: ended: " + to_string(*channel.cause()));
}

TEST_F(Identity, LifeOfAChannelIsLogged) {
  static std::vector<std::string> lines;
  lines.clear();
  const LogSink before = set_log_sink([](LogLevel level, std::string_view line) noexcept {
    if (level == LogLevel::debug && line.contains("channel over")) lines.emplace_back(line);
  });
  auto prepared = prepare();
  const std::string name =
      "channel over queue pair " + number_of(prepared.endpoint()) + " on null0";
  {
    Channel channel = connect(std::move(prepared));
    EXPECT_TRUE(succeeds(channel.close()));
    const auto again = require(std::move(channel).recycle());
  }
  set_log_sink(before);
  EXPECT_EQ(lines, (std::vector{"created " + name, "recycled " + name, "destroyed " + name}));
}

// ---- Ids ----------------------------------------------------------------------------------------

TEST_F(Identity, OperationHasTheIdOfItsRequestAndCompletion) {
  open_channel({.max_sends = 3});
  Buffer memory = buffer();
  auto owned = channel().send(buffer());
  EXPECT_EQ(owned.id(), WrId{script.sends.at(0).id});
  const auto outcome = channel().scope([&](Scope& scope) {
    const Operation one = scope.post(Send{memory.gather()});
    EXPECT_EQ(one.id(), WrId{script.sends.at(1).id});
    EXPECT_NE(one.id(), owned.id());
    script.complete_all(script.sends);
    EXPECT_EQ(require(scope.wait(one)).id(), one.id());
    const std::array both{Send{memory.gather()}, Send{memory.gather()}};
    const Operation batch = scope.post(both);
    EXPECT_EQ(batch.id(), WrId{script.sends.at(3).id});
    const Operation refused = scope.post(Send{memory.gather()});
    EXPECT_NE(refused.id(), batch.id());
    EXPECT_TRUE(fails_with(scope.wait(refused), Errc::would_block));
    script.complete(script.sends.at(3).id);
    EXPECT_TRUE(succeeds(scope.wait(batch)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(require(owned.wait().result).id(), WrId{script.sends.at(0).id});
}

TEST_F(Identity, FailuresOfAScopeNameTheirOperations) {
  open_channel({.max_sends = 2});
  Buffer memory = buffer();
  std::vector<WrId> ids;
  const auto outcome = channel().scope([&](Scope& scope) {
    ids.push_back(scope.post(Send{memory.gather()}).id());
    scope.post_detached(Send{memory.gather()});
    ids.push_back(scope.post(Send{memory.gather()}).id());  // Refused.
    script.complete(script.sends.at(0).id, IBV_WC_REM_ACCESS_ERR);
    script.complete(script.sends.at(1).id, IBV_WC_RETRY_EXC_ERR);
  });
  ASSERT_FALSE(outcome.has_value());
  const auto& failed = outcome.error().operations;
  ASSERT_EQ(failed.size(), 3u);
  EXPECT_EQ(failed[0].id, WrId{script.sends.at(1).id});  // Reported as soon as it was polled.
  EXPECT_EQ(failed[1].id, ids[1]);
  EXPECT_EQ(failed[2].id, ids[0]);
}

TEST_F(Identity, FlushedDetachedWorkIsNamedToo) {
  open_channel();
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    scope.post_detached(Send{memory.gather()});
    channel().cancel();
    static_cast<void>(channel().poll());
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].id, WrId{script.sends.at(0).id});
}

// ---- Options ------------------------------------------------------------------------------------

TEST_F(Identity, SequenceNumberIsTheOneChosenOrRandom) {
  const auto chosen = require(PacketSequenceNumber::from_value(0x123456));
  auto prepared = prepare({.psn = chosen});
  EXPECT_EQ(prepared.endpoint().psn, chosen);
  Channel channel = connect(std::move(prepared));
  EXPECT_EQ(channel.agreement().send_psn, chosen);
  EXPECT_TRUE(succeeds(channel.close()));
  EXPECT_EQ(require(std::move(channel).recycle()).endpoint().psn, chosen);
  // Four equal numbers of 24 bits by chance: once in 10^21.
  std::vector<PacketSequenceNumber> random;
  for (int i = 0; i < 4; ++i) random.push_back(prepare().endpoint().psn);
  EXPECT_FALSE(random[0] == random[1] && random[1] == random[2] && random[2] == random[3]);
}

TEST_F(Identity, ScopeKnowsItsDomain) {
  open_channel();
  std::array<std::byte, 64> memory{};
  const auto outcome = channel().scope([&](Scope& scope) -> Result<void> {
    EXPECT_EQ(&scope.domain(), &channel().domain());
    const auto region = VERBATIM_TRY(scope.domain().register_local(memory));
    EXPECT_EQ(region.gather(memory).size_bytes(), memory.size());
    return {};
  });
  EXPECT_TRUE(outcome.has_value());
}

}  // namespace
}  // namespace verbatim::test
