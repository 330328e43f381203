// SPDX-License-Identifier: MIT OR Apache-2.0
// Asio's coroutines, on a Reactor that an io_context drives.
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>

#include "fixture.hpp"
#include "verbatim/integration/asio.hpp"

namespace verbatim::overhead {
namespace {

struct World {
  explicit World(const Fixture& fixture)
      : reactor(make_reactor(fixture)),
        channel(connect_to_itself(fixture, {.on = reactor, .max_sends = 15, .max_receives = 15})),
        buffer(need(fixture.domain.allocate(fixture.message.size()))),
        loop(need(AsioReactor::create(io, reactor))) {}

  asio::io_context io{1};
  Reactor reactor;
  Channel channel;
  Buffer buffer;
  AsioReactor loop;
};

asio::awaitable<void> send_all(World& world, long operations) {
  for (long i = 0; i < operations; ++i) {
    auto done = co_await world.loop.async_wait(world.channel.send(std::move(world.buffer)),
                                               asio::use_awaitable);
    if (!done.result) report(done.result);
    world.buffer = std::move(done.buffer);
  }
  world.io.stop();
}

}  // namespace

void async_asio(Fixture& fixture, long operations) {
  // Never destroyed, because the device is gone before.
  static World& world = *new World{fixture};
  world.io.restart();
  asio::co_spawn(world.io, send_all(world, operations), asio::detached);
  world.io.run();
}

}  // namespace verbatim::overhead
