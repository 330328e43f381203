// SPDX-License-Identifier: MIT OR Apache-2.0
// A coroutine calls what blocks. Everybody waits, and nobody loses anything: the call files what
// comes for others, and they go on after it.
#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(blocking_in_coroutine) {
  Reacting r;
  auto others = r.connect();
  r.reactor.spawn(receive_one(r.left, r.memory()));
  const auto blocks = [](Channel& to_waiter, Channel& from, Channel& to, Buffer first,
                         Buffer second, Buffer received) -> Task<void> {
    auto receiving = to.receive(std::move(received));
    must(to_waiter.send(std::move(first)).wait().result);
    must(from.send(std::move(second)).wait().result);
    must(receiving.wait().result);  // Files the waiter's message on the way.
    co_return;
  };
  r.reactor.spawn(blocks(r.right, others.first, others.second, r.memory(), r.memory(), r.memory()));
  r.reactor.run();
}

}  // namespace verbatim::test
