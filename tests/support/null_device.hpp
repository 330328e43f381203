// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A fixture over the null provider: any device that a test needs, and proof that nothing of
/// it is left behind.
///
/// A test sets the knobs, replaces entries of the table, and then opens the device. When the test
/// is over, every object must be gone; otherwise the test fails.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "providers/null.hpp"
#include "support/require.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbatim/verbs/queue_pair.hpp"

namespace verbatim::test {

class NullDevice : public testing::Test {
 protected:
  NullDevice();
  void TearDown() override;

  /// Opens null0, through the table.
  [[nodiscard]] Context open(ContextOptions options = {});
  /// How many objects of any kind this test created that still exist.
  [[nodiscard]] int live() const { return verbatim_null_live_objects() - left_by_others_; }

  NullKnobs& knobs = verbatim_null_knobs();
  /// A copy, so that a test can replace a verb. It must outlive what is opened through it.
  Provider table = *verbatim_null_provider();

 private:
  int left_by_others_ = verbatim_null_live_objects();  ///< So a leak fails one test only.
};

[[nodiscard]] CompletionQueue make_queue(const Context& context, std::uint32_t depth = 1024);

/// All rights, and one completion queue for both directions.
[[nodiscard]] QueuePairOptions options_for(const ProtectionDomain& domain,
                                           const CompletionQueue& queue);

/// Connects to itself: on a device without a wire, one end is as good as two.
[[nodiscard]] QueuePair loop_back(PreparedQueuePair prepared);

/// The objects with which most tests of queue pairs start.
struct Bench {
  explicit Bench(const Context& opened, std::uint32_t depth = 1024)
      : context(opened),
        domain(require(opened.allocate_domain())),
        queue(make_queue(opened, depth)) {}

  [[nodiscard]] QueuePairOptions options() const { return options_for(domain, queue); }
  [[nodiscard]] Result<PreparedQueuePair> prepare(
      const std::function<void(QueuePairOptions&)>& change = {}) const;
  [[nodiscard]] QueuePair connected(
      const std::function<void(QueuePairOptions&)>& change = {}) const;

  Context context;
  ProtectionDomain domain;
  CompletionQueue queue;
};

/// What one ibv_modify_qp told the device.
struct Modification {
  ibv_qp_attr attributes;
  unsigned mask;
};

/// Makes the table record every ibv_modify_qp. Call it before opening; the list starts empty.
[[nodiscard]] const std::vector<Modification>& note_modifications(Provider& table);

}  // namespace verbatim::test
