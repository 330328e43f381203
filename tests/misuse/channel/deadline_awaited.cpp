// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: wait: timed out
// A deadline passes in a co_await. All who wait on that channel get their buffers and `timed_out`;
// nobody else notices.
#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(deadline_awaited) {
  Reacting r;
  auto others = r.connect();
  const auto late = [](Channel& channel, Buffer buffer, bool& is_over) -> Task<void> {
    auto [back, result] =
        co_await wait_until(channel.receive(std::move(buffer)), std::chrono::milliseconds{5});
    is_over = back && !result && result.error() == Errc::timed_out;
  };
  const auto undisturbed = [](Reactor& on, Channel& from, Channel& to, Buffer sent, Buffer received,
                              const bool& is_over) -> Task<Result<void>> {
    auto receiving = to.receive(std::move(received));
    while (!is_over) co_await on.sleep(std::chrono::milliseconds{1});  // wait: for the other
    must((co_await from.send(std::move(sent))).result);
    must((co_await std::move(receiving)).result);
    co_return Result<void>{};
  };
  bool is_over = false;
  r.reactor.spawn(late(r.left, r.memory(), is_over));
  must(r.reactor.run(
      undisturbed(r.reactor, others.first, others.second, r.memory(), r.memory(), is_over)));
  if (r.left.cause()) give_up(*r.left.cause());
}

}  // namespace verbatim::test
