// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: stack-use-after-scope ... <use>
// A coroutine uses what its lambda captured, after its first co_await: the lambda is gone by then.
#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(lambda_captures) {
  Reacting r;
  const std::byte value{1};
  r.reactor.spawn([&on = r.reactor, value]() -> Task<void> {
    co_await on.sleep(std::chrono::milliseconds{1});  // wait: nothing else, the lambda dies here
    use(&value);                                      // <use>
  }());
  r.reactor.run();
}

}  // namespace verbatim::test
