// SPDX-License-Identifier: MIT OR Apache-2.0
#include "world.hpp"

#include <chrono>
#include <coroutine>
#include <cstdio>
#include <cstdlib>

namespace verbatim::async_bench {

void give_up(const Error& error) {
  std::fprintf(stderr, "async_driver: %s\n", to_string(error).c_str());
  std::exit(1);
}

Pairs make_pairs(const ProtectionDomain& domain, const Sides& on, std::size_t count,
                 Receives receives) {
  const auto prepare = [&](const SharedCompletions& completions) {
    ChannelOptions options{.on = completions, .max_sends = kDepth};
    if (receives == Receives::own) options.max_receives = kDepth;
    return need(PreparedChannel::create(domain, options));
  };
  Pairs pairs;
  for (std::size_t i = 0; i < count; ++i) {
    auto server = prepare(on.servers);
    auto client = prepare(on.clients);
    const Endpoint to_server = server.endpoint();
    const Endpoint to_client = client.endpoint();
    pairs.servers.push_back(need(std::move(server).connect(to_client)));
    pairs.clients.push_back(need(std::move(client).connect(to_server)));
  }
  return pairs;
}

Reactor make_reactor(const ProtectionDomain& domain, Receives receives, std::size_t pairs) {
  ReactorOptions options{.warn = std::chrono::hours{1}};  // What it logs would count.
  if (receives == Receives::shared)
    options.receives =
        SharedReceiveOptions{.bytes = 64, .count = static_cast<std::uint32_t>(2 * pairs + 64)};
  return need(Reactor::create(domain, options));
}

Echoes::Echoes(const ProtectionDomain& domain, Pairs& pairs, Receives receives)
    : pairs_(pairs),
      receives_(receives),
      pool_(need(Pool::create(
          domain, {.bytes = 64, .count = static_cast<std::uint32_t>(3 * pairs.clients.size())}))) {
  for (std::size_t i = 0; i < pairs.clients.size(); ++i)
    memory_.push_back({pool_.try_take(), pool_.try_take(), pool_.try_take()});
}

Task<void> Echoes::serve_one(Channel& channel, Buffer buffer) {
  for (;;) {
    auto asked = co_await channel.receive(std::move(buffer));
    if (!asked.result) give_up(asked.result.error());
    auto sent =
        co_await channel.send(std::move(asked.buffer), {.length = *asked.result->byte_count()});
    if (!sent.result) give_up(sent.result.error());
    buffer = std::move(sent.buffer);
  }
}

Task<void> Echoes::serve_one_shared(Channel& channel) {
  for (;;) {
    auto asked = co_await channel.receive();
    if (!asked.result) give_up(asked.result.error());
    auto sent =
        co_await channel.send(std::move(asked.buffer), {.length = *asked.result->byte_count()});
    if (!sent.result) give_up(sent.result.error());
  }
}

void Echoes::serve(Reactor& reactor) {
  for (std::size_t i = 0; i < memory_.size(); ++i)
    reactor.spawn(receives_ == Receives::shared
                      ? serve_one_shared(pairs_.servers[i])
                      : serve_one(pairs_.servers[i], std::move(memory_[i].place)));
}

/// One coroutine waits here until the last of many wakes it.
struct Echoes::Latch {
  std::size_t left;
  std::coroutine_handle<> waiting{};

  [[nodiscard]] bool await_ready() const noexcept { return left == 0; }
  void await_suspend(std::coroutine_handle<> coroutine) noexcept { waiting = coroutine; }
  void await_resume() const noexcept {}
};

Task<void> Echoes::ask_one(Latch& latch, std::size_t client, long rounds) {
  Channel& channel = pairs_.clients[client];
  Memory& memory = memory_[client];
  for (long i = 0; i < rounds; ++i) {
    auto receiving = channel.receive(std::move(memory.answer));
    auto sent = co_await channel.send(std::move(memory.question), {.length = sizeof i});
    if (!sent.result) give_up(sent.result.error());
    memory.question = std::move(sent.buffer);
    auto answered = co_await std::move(receiving);
    if (!answered.result) give_up(answered.result.error());
    memory.answer = std::move(answered.buffer);
  }
  if (--latch.left == 0 && latch.waiting) latch.waiting.resume();
}

Task<void> Echoes::ask_one_shared(Latch& latch, std::size_t client, long rounds) {
  Channel& channel = pairs_.clients[client];
  Memory& memory = memory_[client];
  for (long i = 0; i < rounds; ++i) {
    auto sent = co_await channel.send(std::move(memory.question), {.length = sizeof i});
    if (!sent.result) give_up(sent.result.error());
    memory.question = std::move(sent.buffer);
    auto answered = co_await channel.receive();
    if (!answered.result) give_up(answered.result.error());
  }
  if (--latch.left == 0 && latch.waiting) latch.waiting.resume();
}

void Echoes::ask(Reactor& reactor, std::size_t clients, long rounds) {
  Latch latch{.left = clients};
  for (std::size_t i = 0; i < clients; ++i)
    reactor.spawn(receives_ == Receives::shared ? ask_one_shared(latch, i, rounds)
                                                : ask_one(latch, i, rounds));
  reactor.run([](Latch& all) -> Task<void> { co_await all; }(latch));
}

void Echoes::block(std::size_t pairs, long rounds) {
  for (long i = 0; i < rounds; ++i) {
    for (std::size_t k = 0; k < pairs; ++k) {
      Channel& server = pairs_.servers[k];
      Channel& client = pairs_.clients[k];
      Memory& memory = memory_[k];
      auto asking = server.receive(std::move(memory.place));
      auto receiving = client.receive(std::move(memory.answer));
      auto sent = client.send(std::move(memory.question), {.length = sizeof i}).wait();
      if (!sent.result) give_up(sent.result.error());
      memory.question = std::move(sent.buffer);
      auto asked = asking.wait();
      if (!asked.result) give_up(asked.result.error());
      auto answer =
          server.send(std::move(asked.buffer), {.length = *asked.result->byte_count()}).wait();
      if (!answer.result) give_up(answer.result.error());
      memory.place = std::move(answer.buffer);
      auto answered = receiving.wait();
      if (!answered.result) give_up(answered.result.error());
      memory.answer = std::move(answered.buffer);
    }
  }
}

void Echoes::ask_once(std::size_t client) {
  Channel& channel = pairs_.clients[client];
  Memory& memory = memory_[client];
  auto receiving = channel.receive(std::move(memory.answer));
  auto sent = channel.send(std::move(memory.question), {.length = sizeof(long)}).wait();
  if (!sent.result) give_up(sent.result.error());
  memory.question = std::move(sent.buffer);
  auto answered = receiving.wait();
  if (!answered.result) give_up(answered.result.error());
  memory.answer = std::move(answered.buffer);
}

}  // namespace verbatim::async_bench
