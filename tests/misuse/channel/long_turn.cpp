// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: warning: a Reactor did not look at its channels for
// A coroutine computes for so long that everybody else waits. The log tells.
#include "misuse/reactor_misuse.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(long_turn) {
  set_log_sink([](LogLevel level, std::string_view message) noexcept {
    if (level < LogLevel::warning) return;
    std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(message.size()), message.data());
    std::_Exit(1);
  });
  Reacting r;
  const auto computes = [](Reactor& on) -> Task<void> {
    co_await on.sleep(std::chrono::milliseconds{1});  // wait: so that run() goes on with it
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds{150};
    while (std::chrono::steady_clock::now() < end) {
    }
    co_await on.sleep(std::chrono::milliseconds{1});  // wait: for the next look
  };
  r.reactor.spawn(computes(r.reactor));
  r.reactor.run();
}

}  // namespace verbatim::test
