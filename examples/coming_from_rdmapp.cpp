// SPDX-License-Identifier: MIT OR Apache-2.0
// Code of manual/coming_from/rdmapp.md: coroutines that send, receive, write and read.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBytes = 64;

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);  // comes out of reactor.run()
}

// [server]
vb::Task<void> serve(vb::Channel& channel, vb::Pool& pool, vb::SharedRegion& memory) {
  auto [buffer, got] = co_await channel.receive(pool.try_take());  // the client's question
  if (!got) co_return;
  const auto place = vb::encode(memory.remote());  // address and key, as bytes
  std::memcpy(buffer.bytes().data(), place.data(), place.size());
  auto sent = co_await channel.send(std::move(buffer), {.length = place.size()});
  expect(sent.result.has_value(), "the answer was not sent");
}
// [/server]

// [client]
vb::Task<vb::Result<std::uint64_t>> client(vb::Channel& channel, vb::Pool& pool) {
  auto receiving = channel.receive(pool.try_take());  // runs from here on
  auto asked = co_await channel.send(pool.try_take(), {.length = 1});
  auto answer = co_await wait_until(std::move(receiving), 2s);
  expect(asked.result && answer.result, "no answer");
  const auto memory = vb::decode_remote_memory(answer.received());
  expect(memory.has_value(), "no remote memory");

  vb::Buffer number = std::move(answer.buffer);
  number.as<std::uint64_t>()[0] = 42;
  auto written = co_await channel.write(std::move(number), *memory, {.length = 8});
  expect(written.result.has_value(), "not written");
  auto read = co_await channel.read(std::move(written.buffer), *memory, {.length = 8});
  expect(read.result.has_value(), "not read");
  co_return read.buffer.as<std::uint64_t>()[0];
}
// [/client]

vb::Result<std::uint64_t> run() {
  // [reactor]
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));  // the loop, and the poller
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = kBytes, .count = 8}));
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain, {.on = reactor}));
  // [/reactor]
  auto memory =
      VERBATIM_TRY(domain.allocate_shared(8, vb::Access::remote_read | vb::Access::remote_write));
  reactor.spawn(serve(right, pool, memory));
  return reactor.run(client(left, pool));
}

}  // namespace

int main() {
  const auto number = run();
  if (!number) std::fprintf(stderr, "%s\n", vb::explain(number.error()).c_str());
  return number && *number == 42 ? 0 : 1;
}
