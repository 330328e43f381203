// SPDX-License-Identifier: MIT OR Apache-2.0
// A proxy: it passes messages between a client and a server, in the buffers that they arrived in.
//     proxy ADDRESS SERVER
#include <verbatim/verbatim.hpp>

#include <cstdio>

namespace vb = verbatim;

namespace {

// [proxy]
vb::Task<void> forward(vb::Channel& from, vb::Channel& to, vb::Buffer buffer) {
  while (buffer) {  // null from the start if the pool is empty
    auto [message, got] = co_await from.receive(std::move(buffer));
    if (!got) break;
    auto sent = co_await to.send(std::move(message), {.length = *got->byte_count()});
    if (sent.result) buffer = std::move(sent.buffer);
  }
  to.start_close();  // tells the other side, which ends the way back as well
}

vb::Task<void> serve(vb::Reactor& reactor, vb::Channel client, const char* address,
                     const vb::DialOptions& options, vb::Pool& pool) {
  auto server = co_await reactor.dial(client.domain(), address, options);
  if (!server) co_return;  // the client notices that the proxy closes
  co_await when_all(forward(client, server->channel, pool.try_take()),
                    forward(server->channel, client, pool.try_take()));
}

vb::Task<vb::Result<void>> listen(vb::Reactor& reactor, const vb::Listener& listener,
                                  const char* address, const vb::DialOptions& options,
                                  vb::Pool& pool) {
  for (;;) {
    auto client = co_await reactor.accept(listener);
    if (!client) co_return std::unexpected(client.error());
    reactor.spawn(serve(reactor, std::move(client->channel), address, options, pool));
  }
}

vb::Result<void> run(const char* address, const char* server_address) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = 4096, .count = 1024}));
  const vb::ChannelOptions options{.on = reactor, .max_sends = 1, .max_receives = 1};
  const vb::DialOptions dial_options{.channel = options};
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address, {.channel = options}));
  return reactor.run(listen(reactor, listener, server_address, dial_options, pool));
}
// [/proxy]

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("proxy ADDRESS SERVER\n", stderr);
    return 2;
  }
  const auto ended = run(argv[1], argv[2]);
  if (!ended) std::fprintf(stderr, "%s\n", vb::explain(ended.error()).c_str());
  return ended ? 0 : 1;
}
