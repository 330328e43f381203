// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A MultiChannel, its peers in this process, each with its own completion queue, and memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "support/device_under_test.hpp"
#include "support/pattern.hpp"
#include "support/require.hpp"
#include "verbatim/multi/multi_channel.hpp"

namespace verbatim::test {

/// Whether the call failed with exactly these peers, in this order.
[[nodiscard]] inline testing::AssertionResult names(
    const BulkResult& result, const std::vector<std::pair<PeerIndex, Errc>>& expected) {
  std::vector<std::pair<PeerIndex, Errc>> found;
  if (!result)
    for (const PeerError& each : result.error().peers) found.emplace_back(each.peer, each.code);
  if (found == expected) return testing::AssertionSuccess();
  return testing::AssertionFailure() << (result ? "it succeeded" : to_string(result.error()));
}
[[nodiscard]] inline testing::AssertionResult succeeds(const BulkResult& result) {
  return names(result, {});
}

class MultiPeers : public testing::Test {
 protected:
  static constexpr PeerIndex kPeers = 4;
  static constexpr std::size_t kPiece = 64;
  static constexpr std::uint32_t kDepth = 16;

  explicit MultiPeers(PeerIndex peers = kPeers) {
    fill(source, seed);
    for (PeerIndex i = 0; i < peers; ++i) EXPECT_EQ(join(), i);
  }

  /// Connects a new peer.
  PeerIndex join() {
    auto ours = require(multi.prepare());
    auto theirs = require(PreparedChannel::create(domain, {.max_sends = 64, .max_receives = 64}));
    const Endpoint here = ours.endpoint();
    const Endpoint there = theirs.endpoint();
    auto other = std::make_unique<Channel>(require(std::move(theirs).connect(here)));
    const PeerIndex peer = require(multi.add(require(std::move(ours).connect(there))));
    if (peer >= far.size()) far.resize(peer + 1);
    far[peer] = std::move(other);
    return peer;
  }

  // Many peers that are late at once. A wait for each of them in turn would take kMany times as
  // long as one for all. So a machine that is held up for seconds cannot be mistaken for that.
  static constexpr PeerIndex kMany = 24;
  static constexpr std::chrono::milliseconds kLate{250};
  static constexpr std::chrono::milliseconds kTogether = kMany * kLate / 2;
  /// Connects peers until there are kMany, and returns them.
  [[nodiscard]] std::vector<PeerIndex> crowd() {
    while (multi.size() < kMany) join();
    return multi.peers();
  }
  /// The errors of a call in which all of these were late.
  [[nodiscard]] static std::vector<std::pair<PeerIndex, Errc>> late(
      std::span<const PeerIndex> peers) {
    std::vector<std::pair<PeerIndex, Errc>> errors;
    for (const PeerIndex peer : peers) errors.emplace_back(peer, Errc::timed_out);
    return errors;
  }

  // Borrowed memory, in pieces.
  [[nodiscard]] GatherElement piece(std::size_t index) {
    return from.gather(std::span{source}.subspan(index * kPiece, kPiece));
  }
  [[nodiscard]] ScatterElement place(std::size_t index) {
    return into.scatter(std::span{sink}.subspan(index * kPiece, kPiece));
  }
  [[nodiscard]] testing::AssertionResult is_piece(std::span<const std::byte> found,
                                                  std::size_t index) {
    const auto sent = std::span{source}.subspan(index * kPiece, kPiece);
    if (std::ranges::equal(found, sent)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "not the bytes of piece " << index;
  }
  [[nodiscard]] testing::AssertionResult came(std::size_t place, std::size_t index) {
    return is_piece(std::span{sink}.subspan(place * kPiece, kPiece), index);
  }
  [[nodiscard]] Buffer memory() { return require(domain.allocate(kPiece)); }
  [[nodiscard]] Buffer filled(std::size_t index) {
    Buffer buffer = memory();
    std::ranges::copy(std::span{source}.subspan(index * kPiece, kPiece), buffer.bytes().begin());
    return buffer;
  }

  // What the peers do.
  [[nodiscard]] Pending<Buffer> accept(PeerIndex peer) { return far[peer]->receive(memory()); }
  [[nodiscard]] std::vector<Pending<Buffer>> accept_from_all() {
    std::vector<Pending<Buffer>> all;
    for (const PeerIndex peer : multi.peers()) all.push_back(accept(peer));
    return all;
  }
  [[nodiscard]] testing::AssertionResult got(Pending<Buffer>& receiving, std::size_t index) {
    const auto done = receiving.wait(kPatience);
    if (!done.result) return testing::AssertionFailure() << to_string(done.result.error());
    return is_piece(done.received(), index);
  }
  /// Sends one message to the peer, and checks that it arrives, with nothing before it.
  [[nodiscard]] testing::AssertionResult works(PeerIndex peer, std::size_t index = 7) {
    auto receiving = accept(peer);
    if (const auto sent = multi[peer].send(piece(index)); !sent)
      return testing::AssertionFailure() << "peer " << peer << ": " << to_string(sent.error());
    return got(receiving, index);
  }
  [[nodiscard]] testing::AssertionResult all_idle() {
    for (const PeerIndex peer : multi.peers())
      if (multi[peer].free_sends() != kDepth || multi[peer].free_receives() != kDepth)
        return testing::AssertionFailure() << "peer " << peer << " has work";
    return testing::AssertionSuccess();
  }
  /// No peer has such a key.
  [[nodiscard]] Write<1> failing_write() {
    return {piece(0), RemoteMemoryRegion{4096, kPiece, RemoteKey{0x7fffff01}}};
  }

  std::uint64_t seed = test_seed();
  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  Reactor reactor = require(Reactor::create(domain));
  MultiChannel multi{reactor, domain};
  std::vector<std::unique_ptr<Channel>> far{};  ///< By index: the other side of each channel.
  std::vector<std::byte> source = std::vector<std::byte>(64 * kPiece);
  std::vector<std::byte> sink = std::vector<std::byte>(64 * kPiece);
  MemoryRegion from = require(domain.register_local(source));
  MemoryRegion into = require(domain.register_local(sink));
};

}  // namespace verbatim::test
