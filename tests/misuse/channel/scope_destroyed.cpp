// SPDX-License-Identifier: MIT OR Apache-2.0
// A coroutine is destroyed while the device may write to memory of its frame. It does no harm: the
// channel ends, and the device has given the memory back before the frame goes.
#include <array>
#include <span>

#include "misuse/reactor_misuse.hpp"
#include "verbatim/reactor/async_scope.hpp"

namespace verbatim::test {

/// Waits in a scope for a message into memory of its caller's frame.
struct ReceiveBorrowed {
  const MemoryRegion& region;
  std::span<std::byte> memory;
  Task<Result<void>> operator()(Scope& scope) const {
    const Operation receiving = scope.post(Receive{region.scatter(memory)});
    must(co_await over(scope, receiving));
    co_return Result<void>{};
  }
};

VERBATIM_MISUSE(scope_destroyed) {
  Reacting r;
  const auto borrows = [](Channel& channel, const ProtectionDomain& domain) -> Task<Result<void>> {
    std::array<std::byte, Reacting::kSize> in_frame{};
    const MemoryRegion region = must(domain.register_local(in_frame));
    const ReceiveBorrowed receive{region, in_frame};
    static_cast<void>(co_await async_scope(channel, receive));
    co_return Result<void>{};
  };
  r.reactor.submit([&] { r.reactor.stop(); });  // While it waits: run() destroys it there.
  const Result<void> stopped = r.reactor.run(borrows(r.left, r.domain));
  if (stopped || stopped.error() != Errc::cancelled) give_up({.operation = "not stopped"});
  if (!r.left.cause() || *r.left.cause() != Errc::cancelled) give_up({.operation = "no end"});
}

}  // namespace verbatim::test
