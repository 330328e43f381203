// SPDX-License-Identifier: MIT OR Apache-2.0
// The echo server in an Asio program: one Asio coroutine per client. echo_asio ADDRESS
#include <verbatim/verbatim.hpp>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/use_awaitable.hpp>
#include <cstdio>
#include <verbatim/integration/asio.hpp>

namespace vb = verbatim;

namespace {

// [server]
asio::awaitable<void> serve(vb::AsioReactor& loop, vb::Channel channel, vb::Buffer buffer) {
  while (buffer) {  // null from the start if the pool is empty: no room for this client
    auto got = co_await loop.async_wait(channel.receive(std::move(buffer)), asio::use_awaitable);
    if (!got.result) co_return;  // the client is gone
    auto sending = channel.send(std::move(got.buffer), {.length = *got.result->byte_count()});
    auto sent = co_await loop.async_wait(std::move(sending), asio::use_awaitable);
    buffer = std::move(sent.buffer);  // if the send failed, the next receive says why
  }
}

vb::Task<void> listen(vb::Reactor& reactor, vb::Listener& listener, vb::Pool& pool,
                      asio::io_context& io, vb::AsioReactor& loop, vb::Result<void>& ended) {
  auto client = co_await reactor.accept(listener);
  for (; client; client = co_await reactor.accept(listener))
    asio::co_spawn(io, serve(loop, std::move(client->channel), pool.try_take()), asio::detached);
  ended = std::unexpected(client.error());
}

vb::Result<void> run(const char* address) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = 4096, .count = 1024}));
  const vb::ChannelOptions options{.on = reactor, .max_sends = 1, .max_receives = 1};
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address, {.channel = options}));
  asio::io_context io{1};
  auto loop = VERBATIM_TRY(vb::AsioReactor::create(io, reactor));
  vb::Result<void> ended{};
  reactor.spawn(listen(reactor, listener, pool, io, loop, ended));
  while (ended && !io.stopped()) io.run_one();  // plus whatever else the program does in Asio
  return ended;
}
// [/server]

}  // namespace

int main(int argc, char** argv) {
  const auto ended = run(argc > 1 ? argv[1] : "127.0.0.1:7000");
  if (!ended) std::fprintf(stderr, "%s\n", vb::explain(ended.error()).c_str());
  return ended ? 0 : 1;
}
