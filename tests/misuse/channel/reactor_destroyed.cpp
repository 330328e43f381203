// SPDX-License-Identifier: MIT OR Apache-2.0
// A reactor goes before its channels, and in the middle of a coroutine. It does no harm: the
// coroutine is destroyed, the channels live on, and calls that block drive them.
#include <optional>

#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(reactor_destroyed) {
  Reacting r;
  r.reactor.spawn(receive_one(r.left, r.memory()));
  {
    const Reactor gone = std::move(r.reactor);
  }
  must(r.right.send(r.memory()).wait().result);  // Into the buffer that the coroutine had.
  Pending receiving = r.left.receive(r.memory());
  must(r.right.send(r.memory()).wait().result);
  must(receiving.wait().result);
  if (r.left.dropped_messages() != 1) give_up({.operation = "not dropped"});
}

}  // namespace verbatim::test
