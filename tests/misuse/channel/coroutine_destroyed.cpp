// SPDX-License-Identifier: MIT OR Apache-2.0
// A coroutine is destroyed in flight. It does no harm: the slot keeps the buffer until a message
// has come, and nothing waits for that.
#include <optional>

#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(coroutine_destroyed) {
  Reacting r;
  const auto outer = [](Task<void> inner) -> Task<Result<void>> {
    co_await std::move(inner);
    co_return Result<void>{};
  };
  r.reactor.submit([&] { r.reactor.stop(); });  // While it waits: run() destroys it there.
  const Result<void> stopped = r.reactor.run(outer(receive_one(r.left, r.memory())));
  if (stopped || stopped.error() != Errc::cancelled) give_up({.operation = "not stopped"});
  must(r.right.send(r.memory()).wait().result);  // Into the buffer that nobody has any more.
  while (r.left.dropped_messages() == 0) static_cast<void>(must(r.left.poll()));
}

}  // namespace verbatim::test
