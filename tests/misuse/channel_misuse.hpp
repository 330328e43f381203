// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the cases in channel/ share: two connected channels on the software device.
///
/// A case is one mistake of a program that uses channels. Its first lines say what each checker
/// that notices has to report, in this order, with anything where " ... " is:
///
///     // EXPECT asan tsan: text ... more text
///     // EXPECT msan: the name of the case in cases/ that stands for it
///
/// `<post>` there is the place of the line of the case that ends with `// <post>`. Which checker
/// notices at all is told by the table in manual/safety.md: see channel_misuse_test.cpp.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "misuse/misuse.hpp"
#include "verbatim/channel/channel.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {

/// The program is told of an error, and gives up.
[[noreturn]] inline void give_up(const Error& error) {
  std::fprintf(stderr, "error: %s\n", to_string(error).c_str());
  std::_Exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
inline void must(const ScopeResult<void>& outcome) {
  if (outcome) return;
  give_up(outcome.error().closure ? *outcome.error().closure : outcome.error().operations.at(0));
}

/// What the user of a channel sees: the left one is his, the right one his peer's.
struct Channels {
  static constexpr std::size_t kSize = 256;

  Context context = must(open_device("soft0"));
  ProtectionDomain domain = must(context.allocate_domain());
  std::pair<Channel, Channel> pair = must(connect_pair(domain));
  Channel& left = pair.first;
  Channel& right = pair.second;
  Buffer message = must(domain.allocate(kSize));

  /// The peer sends.
  void deliver(std::size_t bytes = kSize) { must(right.send(message.gather(0, bytes))); }
  /// The peer receives.
  [[nodiscard]] Pending<Buffer> accept() { return right.receive(must(domain.allocate(kSize))); }
};

}  // namespace verbatim::test
