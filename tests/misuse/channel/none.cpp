// SPDX-License-Identifier: MIT OR Apache-2.0
// Nothing is wrong: every way to use a channel, and a thread that the work is handed to.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(none) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  std::thread user{[&] {
    std::array<std::byte, 64> on_stack{};
    const MemoryRegion stack = must(c.domain.register_local(on_stack));
    Pending accepting = c.accept();
    Pending another = c.accept();
    must(c.left.scope([&](Scope& scope) {
      const Operation receiving = scope.post(Receive{region.scatter(std::span{memory}.first(128))});
      c.deliver(128);
      must(scope.wait(receiving));
      scribble(&memory[0]);
      scope.post_detached(Send{region.gather(memory)});
      scope.post_detached(Send{stack.gather(on_stack)});
    }));
    must(accepting.wait().result);
    must(another.wait().result);
  }};
  user.join();
  use(&memory[99]);
  Pending receiving = c.left.receive(must(c.domain.allocate(Channels::kSize)));
  c.deliver();
  const auto [buffer, result] = receiving.wait();
  must(result);
  use(buffer.bytes().data());
}

}  // namespace verbatim::test
