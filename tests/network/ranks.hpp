// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ranks that are threads of this process, each with its own device context.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/require.hpp"
#include "verbatim/network/coordinator.hpp"
#include "verbatim/network/node.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {

/// The longest wait of these tests; long enough for a busy machine.
inline constexpr std::chrono::seconds kNodePatience{60};

/// A coordinator, and the identities of the ranks.
class Job {
 public:
  /// No rank is silent here: one that seems to be is only slow.
  explicit Job(Rank world)
      : world_(world),
        secret_(Secret::random()),
        coordinator_(require(
            Coordinator::open({.world = world, .secret = secret_, .detect = kNodePatience}))) {}

  [[nodiscard]] Identity identity(Rank rank) const {
    return {
        .rank = rank, .world = world_, .coordinator = coordinator_->address(), .secret = secret_};
  }
  [[nodiscard]] Rank world() const { return world_; }
  /// As if the process that coordinates had ended.
  void end_coordinator() { coordinator_.reset(); }

 private:
  Rank world_;
  Secret secret_;
  std::optional<Coordinator> coordinator_;
};

/// What one rank needs before it joins.
struct RankDevice {
  Context context = require(open_device("soft0"));
  ProtectionDomain domain = require(context.allocate_domain());
};

/// Runs `body` as one rank. An exception fails the test.
template <class Body>
std::jthread start_rank(const Job& job, Rank rank, NodeOptions options, Body body) {
  options.detect = kNodePatience;
  return std::jthread{[&job, rank, options, body] {
    try {
      RankDevice device;
      Node node = require(Node::join(device.domain, job.identity(rank), options));
      body(node, device);
    } catch (const std::exception& problem) {
      ADD_FAILURE() << "rank " << rank << ": " << problem.what();
    }
  }};
}

/// Runs `body` as each rank of a new world, and waits for all.
template <class Body>
void run_ranks(Rank world, const NodeOptions& options, Body body) {
  const Job job{world};
  std::vector<std::jthread> ranks;
  for (Rank rank = 0; rank < world; ++rank) ranks.push_back(start_rank(job, rank, options, body));
}

}  // namespace verbatim::test
