// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/completions.hpp"

#include <array>

namespace verbatim::test {

std::optional<Completion> poll_within(CompletionQueue& queue, std::chrono::nanoseconds patience) {
  std::array<Completion, 1> found;
  const bool came = eventually([&] { return require(queue.poll(found)) == 1; }, patience);
  if (!came) return std::nullopt;
  return found[0];
}

Completion poll_one(CompletionQueue& queue, Where where) {
  const auto found = poll_within(queue, kPatience);
  if (!found) give_up("no completion came", where);
  return *found;
}

Completion poll_ok(CompletionQueue& queue, Where where) {
  const Completion found = poll_one(queue, where);
  if (!found.ok()) give_up("a request failed: " + to_string(found.error()), where);
  return found;
}

std::vector<Completion> poll_many(CompletionQueue& queue, std::size_t count, Where where) {
  std::vector<Completion> found;
  while (found.size() < count) found.push_back(poll_one(queue, where));
  return found;
}

testing::AssertionResult succeeded(const Completion& completion) {
  if (completion.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(completion.error());
}

namespace {

testing::AssertionResult in_order(const std::vector<Completion>& found, std::uint64_t first,
                                  WorkStatus expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].id() == WrId{first + i} && found[i].status() == expected) continue;
    return testing::AssertionFailure()
           << "completion " << i << " is request " << std::to_underlying(found[i].id()) << ", "
           << to_string(found[i].status()) << "; expected request " << first + i << ", "
           << to_string(expected);
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult succeeded_in_order(const std::vector<Completion>& found,
                                            std::uint64_t first) {
  return in_order(found, first, WorkStatus::success);
}

testing::AssertionResult flushed_in_order(const std::vector<Completion>& found,
                                          std::uint64_t first) {
  return in_order(found, first, WorkStatus::flushed);
}

}  // namespace verbatim::test
