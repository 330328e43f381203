// SPDX-License-Identifier: MIT OR Apache-2.0
// The interfaces of the channel layer.
#include <array>

#include "fixture.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::overhead {
namespace {

Channel& channel_of(const Fixture& fixture) {
  static Channel channel = connect_to_itself(fixture);  // In the first call, which does not count.
  return channel;
}

constexpr long kGroup = 16;

}  // namespace

void channel_blocking(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  for (long i = 0; i < operations; ++i) {
    const auto done = channel.send(fixture.region.gather(fixture.message));
    if (!done) report(done);
  }
}

void channel_buffer(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  static const Buffer buffer = need(fixture.domain.allocate(8));
  for (long i = 0; i < operations; ++i) {
    const auto done = channel.send(buffer.gather());
    if (!done) report(done);
  }
}

void channel_owned(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  static Buffer buffer = need(fixture.domain.allocate(8));
  Buffer mine = std::move(buffer);
  for (long i = 0; i < operations; ++i) {
    auto pending = channel.send(std::move(mine));
    auto done = pending.wait();
    if (!done.result) report(done.result);
    mine = std::move(done.buffer);
  }
  buffer = std::move(mine);
}

void channel_unsafe(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  for (long i = 0; i < operations; ++i) {
    auto sending = unsafe::post(channel, Send{fixture.region.gather(fixture.message)});
    const auto done = sending.wait();
    if (!done) report(done);
  }
}

void channel_scope(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  const auto outcome = channel.scope([&](Scope& scope) {
    for (long i = 0; i < operations; ++i) {
      const auto operation = scope.post(Send{fixture.region.gather(fixture.message)});
      const auto done = scope.wait(operation);
      if (!done) report(done);
    }
  });
  if (!outcome) report(outcome.error().operations.front());
}

void channel_scope_each(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  for (long i = 0; i < operations; ++i) {
    const auto outcome = channel.scope([&](Scope& scope) -> Result<void> {
      const auto done = scope.wait(scope.post(Send{fixture.region.gather(fixture.message)}));
      if (!done) return std::unexpected(done.error());
      return {};
    });
    if (!outcome) report(*outcome.error().closure);
  }
}

void channel_detached(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  for (long i = 0; i < operations; i += kGroup) {
    const auto outcome = channel.scope([&](Scope& scope) {
      for (long j = 0; j < kGroup; ++j)
        scope.post_detached(Send{fixture.region.gather(fixture.message)});
    });
    if (!outcome) report(outcome.error().operations.front());
  }
}

void channel_batch(Fixture& fixture, long operations) {
  Channel& channel = channel_of(fixture);
  const auto outcome = channel.scope([&](Scope& scope) {
    for (long i = 0; i < operations; i += kGroup) {
      const auto works = [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto one = [&](std::size_t) { return Send{fixture.region.gather(fixture.message)}; };
        return std::array<Send<1>, kGroup>{one(I)...};
      }(std::make_index_sequence<kGroup>{});
      const auto done = scope.wait(scope.post(std::span<const Send<1>>{works}));
      if (!done) report(done);
    }
  });
  if (!outcome) report(outcome.error().operations.front());
}

}  // namespace verbatim::overhead
