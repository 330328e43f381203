// SPDX-License-Identifier: MIT OR Apache-2.0
// Coroutines and tags on a Reactor, whose channels send the fixture's message in Buffers.
#include <array>
#include <optional>
#include <vector>

#include "fixture.hpp"

namespace verbatim::overhead {
namespace {

struct World {
  Reactor reactor;
  std::vector<Channel> channels{};
  std::vector<Buffer> buffers{};
};

World make_world(const Fixture& fixture, std::size_t channels) {
  World world{.reactor = make_reactor(fixture)};
  for (std::size_t i = 0; i < channels; ++i) {
    world.channels.push_back(
        connect_to_itself(fixture, {.on = world.reactor, .max_sends = 15, .max_receives = 15}));
    world.buffers.push_back(need(fixture.domain.allocate(fixture.message.size())));
  }
  return world;
}

/// Created once and never destroyed, because the device is gone before.
template <std::size_t N>
World& world_of(const Fixture& fixture) {
  static World& world = *new World{make_world(fixture, N)};
  return world;
}

Task<void> send_all(Channel& channel, Buffer& buffer, long operations) {
  for (long i = 0; i < operations; ++i) {
    auto done = co_await channel.send(std::move(buffer));
    if (!done.result) report(done.result);
    buffer = std::move(done.buffer);
  }
}

Task<Result<Completion>> send_one(Channel& channel, Buffer& buffer) {
  auto done = co_await channel.send(std::move(buffer));
  buffer = std::move(done.buffer);
  co_return done.result;
}

Task<void> send_by_task(Channel& channel, Buffer& buffer, long operations) {
  for (long i = 0; i < operations; ++i) {
    const auto done = co_await send_one(channel, buffer);
    if (!done) report(done);
  }
}

}  // namespace

void async_send(Fixture& fixture, long operations) {
  World& world = world_of<1>(fixture);
  world.reactor.run(send_all(world.channels[0], world.buffers[0], operations));
}

void async_send16(Fixture& fixture, long operations) {
  World& world = world_of<16>(fixture);
  for (std::size_t i = 0; i < 16; ++i)
    world.reactor.spawn(send_all(world.channels[i], world.buffers[i], operations / 16));
  world.reactor.run();
}

void async_task(Fixture& fixture, long operations) {
  World& world = world_of<1>(fixture);
  world.reactor.run(send_by_task(world.channels[0], world.buffers[0], operations));
}

void async_tags(Fixture& fixture, long operations) {
  World& world = world_of<16>(fixture);
  std::array<std::optional<Pending<Buffer>>, 16> pending;
  const auto post = [&](std::size_t i) {
    pending[i].emplace(world.channels[i].send(std::move(world.buffers[i])));
    world.reactor.notify(*pending[i], reinterpret_cast<void*>(i));
  };
  long posted = 0;
  for (std::size_t i = 0; i < 16 && posted < operations; ++i, ++posted) post(i);
  std::array<void*, 16> tags;
  for (long over = 0; over < operations;) {
    const std::size_t count = world.reactor.poll(tags);
    for (std::size_t k = 0; k < count; ++k, ++over) {
      const auto i = reinterpret_cast<std::size_t>(tags[k]);
      auto done = pending[i]->wait();
      if (!done.result) report(done.result);
      world.buffers[i] = std::move(done.buffer);
      if (posted < operations) {
        post(i);
        ++posted;
      }
    }
  }
}

}  // namespace verbatim::overhead
