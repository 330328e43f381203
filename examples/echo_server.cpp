// SPDX-License-Identifier: MIT OR Apache-2.0
// An echo server for many clients in one thread: one coroutine per client. echo_server ADDRESS
#include <verbatim/verbatim.hpp>

#include <cstdio>

namespace vb = verbatim;

namespace {

// [server]
vb::Task<void> serve(vb::Channel channel) {
  for (;;) {
    auto [message, got] = co_await channel.receive();
    if (!got) co_return;  // the client is gone
    auto sent = co_await channel.send(std::move(message), {.length = *got->byte_count()});
    if (!sent.result) co_return;
  }
}

vb::Task<vb::Result<void>> listen(vb::Reactor& reactor, vb::Listener& listener) {
  auto client = co_await reactor.accept(listener);
  for (; client; client = co_await reactor.accept(listener))
    reactor.spawn(serve(std::move(client->channel)));
  co_return std::unexpected(client.error());
}

vb::Result<void> run(const char* address) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  const vb::SharedReceiveOptions receives{.bytes = 4096, .count = 1024};  // for all clients
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain, {.receives = receives}));
  const vb::ChannelOptions options{.on = reactor, .max_sends = 1};
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address, {.channel = options}));
  return reactor.run(listen(reactor, listener));
}
// [/server]

}  // namespace

int main(int argc, char** argv) {
  const auto ended = run(argc > 1 ? argv[1] : "127.0.0.1:7000");
  if (!ended) std::fprintf(stderr, "%s\n", vb::explain(ended.error()).c_str());
  return ended ? 0 : 1;
}
