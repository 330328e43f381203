// SPDX-License-Identifier: MIT OR Apache-2.0
// The echo server in the program's own event loop, without coroutines. echo_epoll ADDRESS
#include <sys/epoll.h>
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <optional>

namespace vb = verbatim;

namespace {

// [server]
struct Client {
  vb::Channel channel;
  std::optional<vb::Pending<vb::Buffer>> pending{};
  bool is_receiving = false;
};

void begin(vb::Reactor& reactor, Client& client, vb::Pending<vb::Buffer> operation) {
  client.is_receiving = !client.is_receiving;
  reactor.notify(client.pending.emplace(std::move(operation)), &client, vb::kForever);
}

void go_on(vb::Reactor& reactor, Client& client) {
  auto [data, result] = client.pending->wait();  // returns at once: it is over
  if (!result)
    delete &client;  // the client is gone; its buffer returns to the pool
  else if (client.is_receiving)
    begin(reactor, client, client.channel.send(std::move(data), {.length = *result->byte_count()}));
  else
    begin(reactor, client, client.channel.receive(std::move(data)));
}

vb::Result<void> run(const char* address) {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = 4096, .count = 1024}));
  const vb::ChannelOptions options{.on = reactor, .max_sends = 1, .max_receives = 1};
  auto listener = VERBATIM_TRY(vb::Listener::open(domain, address, {.channel = options}));
  const int loop = epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {reactor.fd(), listener.fd()}) {
    epoll_event wanted{.events = EPOLLIN, .data = {.fd = fd}};
    epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wanted);
  }
  for (std::array<void*, 64> over;;) {
    while (const std::size_t count = reactor.poll(over))
      for (void* tag : std::span{over}.first(count)) go_on(reactor, *static_cast<Client*>(tag));
    epoll_event raised{};
    if (epoll_wait(loop, &raised, 1, -1) != 1 || raised.data.fd != listener.fd()) continue;
    auto met = VERBATIM_TRY(listener.try_accept());  // empty: it was a step of a handshake
    if (auto buffer = pool.try_take(); met && buffer) {
      auto& client = *new Client{std::move(met->channel)};
      begin(reactor, client, client.channel.receive(std::move(buffer)));
    }
  }
}
// [/server]

}  // namespace

int main(int argc, char** argv) {
  const auto ended = run(argc > 1 ? argv[1] : "127.0.0.1:7000");
  if (!ended) std::fprintf(stderr, "%s\n", vb::explain(ended.error()).c_str());
  return ended ? 0 : 1;
}
