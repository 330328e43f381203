// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: nobody caught this ... others went on: yes
// An exception leaves a spawned task. It comes out of run(); the next run() goes on with the
// others.
#include <exception>
#include <stdexcept>

#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(task_throws) {
  Reacting r;
  bool went_on = false;
  const auto fails = []() -> Task<void> {
    throw std::runtime_error("nobody caught this");
    co_return;
  };
  const auto goes_on = [](Reactor& on, bool& done) -> Task<void> {
    co_await on.sleep(std::chrono::milliseconds{1});  // wait: until run() has thrown
    done = true;
  };
  r.reactor.spawn(goes_on(r.reactor, went_on));
  r.reactor.spawn(fails());
  try {
    r.reactor.run();
  } catch (const std::exception& thrown) {
    r.reactor.run();
    std::fprintf(stderr, "error: %s; others went on: %s\n", thrown.what(), went_on ? "yes" : "no");
    std::_Exit(1);
  }
}

}  // namespace verbatim::test
