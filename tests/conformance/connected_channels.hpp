// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two channels of this process, connected to each other, and memory for them.
///
/// With VERBATIM_TEST_ON_REACTOR they are channels of one Reactor that nobody runs. Every call must
/// still do the same as on a channel with its own queue.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {

[[nodiscard]] inline bool is_on_reactor() noexcept {
  return std::getenv("VERBATIM_TEST_ON_REACTOR") != nullptr;
}

class ConnectedChannels : public testing::Test {
 protected:
  static constexpr std::size_t kPiece = 64;

  explicit ConnectedChannels(const ChannelOptions& options = {})
      : pair(require(connect_pair(domain, on_reactor(options)))) {}

  [[nodiscard]] ChannelOptions on_reactor(ChannelOptions options) const {
    if (reactor) options.on = *reactor;
    return options;
  }

  // For owned operations.
  [[nodiscard]] Buffer filled(std::size_t bytes, std::uint64_t with) {
    Buffer buffer = require(domain.allocate(bytes));
    fill(buffer.bytes(), with);
    return buffer;
  }
  [[nodiscard]] Buffer empty(std::size_t bytes) { return require(domain.allocate(bytes)); }

  /// Receives on the right for `count` messages.
  [[nodiscard]] std::vector<Pending<Buffer>> receives(std::size_t count) {
    std::vector<Pending<Buffer>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(right.receive(empty(kPiece)));
    return all;
  }

  /// Connects two channels that ended, or are new.
  [[nodiscard]] static std::pair<Channel, Channel> join(PreparedChannel a, PreparedChannel b) {
    const Endpoint first = a.endpoint();
    const Endpoint second = b.endpoint();
    Channel one = require(std::move(a).connect(second));
    return {std::move(one), require(std::move(b).connect(first))};
  }
  /// Sends one message, and checks that it arrives unchanged.
  void exchange(Channel& sender, Channel& receiver) {
    auto receiving = receiver.receive(empty(kPiece));
    EXPECT_TRUE(succeeds(sender.send(filled(kPiece, seed)).wait().result));
    auto [received, result] = receiving.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(received.bytes(), seed));
  }

  std::uint64_t seed = test_seed();
  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  std::optional<Reactor> reactor =
      is_on_reactor() ? std::optional{require(Reactor::create(domain))} : std::nullopt;
  std::pair<Channel, Channel> pair;
  Channel& left = pair.first;
  Channel& right = pair.second;
};

/// Adds borrowed memory, in pieces, for blocking calls and scopes.
class ChannelsAndMemory : public ConnectedChannels {
 protected:
  explicit ChannelsAndMemory(const ChannelOptions& options = {}) : ConnectedChannels(options) {
    fill(source, seed);
  }

  [[nodiscard]] GatherElement piece(std::size_t index) {
    return from.gather(std::span{source}.subspan(index * kPiece, kPiece));
  }
  [[nodiscard]] ScatterElement place(std::size_t index) {
    return into.scatter(std::span{sink}.subspan(index * kPiece, kPiece));
  }
  /// The content of a place.
  [[nodiscard]] std::span<const std::byte> came(std::size_t index) const {
    return std::span{sink}.subspan(index * kPiece, kPiece);
  }

  std::vector<std::byte> source = std::vector<std::byte>(64 * kPiece);
  std::vector<std::byte> sink = std::vector<std::byte>(64 * kPiece);
  MemoryRegion from = require(domain.register_local(source));
  MemoryRegion into = require(domain.register_local(sink));
};

}  // namespace verbatim::test
