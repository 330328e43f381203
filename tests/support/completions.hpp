// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Waiting for completions, always with a time limit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <source_location>
#include <thread>
#include <vector>

#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/verbs/completion_queue.hpp"

namespace verbatim::test {

using Where = std::source_location;

/// Tries until it works; returns false if the time is over first. For conditions that no descriptor
/// announces.
template <class Condition>
[[nodiscard]] bool eventually(Condition&& condition,
                              std::chrono::nanoseconds patience = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();  // What came in time counts, however late this thread looks.
}

/// The next completion, or nothing if none comes in time. For tests that expect none.
[[nodiscard]] std::optional<Completion> poll_within(CompletionQueue& queue,
                                                    std::chrono::nanoseconds patience);
/// The next completion, good or bad. Throws if none comes in time.
[[nodiscard]] Completion poll_one(CompletionQueue& queue, Where where = Where::current());
/// The next completion. Throws unless it is a success.
Completion poll_ok(CompletionQueue& queue, Where where = Where::current());
/// The next `count` completions, good or bad.
[[nodiscard]] std::vector<Completion> poll_many(CompletionQueue& queue, std::size_t count,
                                                Where where = Where::current());

/// Whether the request succeeded; if not, says why.
[[nodiscard]] testing::AssertionResult succeeded(const Completion& completion);
/// Whether these are the requests `first`, `first + 1`, ... in this order, all good.
[[nodiscard]] testing::AssertionResult succeeded_in_order(const std::vector<Completion>& found,
                                                          std::uint64_t first);
/// The same for flushed requests.
[[nodiscard]] testing::AssertionResult flushed_in_order(const std::vector<Completion>& found,
                                                        std::uint64_t first);

}  // namespace verbatim::test
