// SPDX-License-Identifier: MIT OR Apache-2.0
// What coroutines can wait for: an operation, a deadline, the first of several, all of several, a
// time, and the work of another thread.
#include <verbatim/verbatim.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <tuple>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBytes = 64;

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);  // reactor.run() throws it
}

vb::Task<void> echo(vb::Channel& channel, vb::Buffer buffer) {
  while (buffer) {
    auto [message, got] = co_await channel.receive(std::move(buffer));
    if (!got) co_return;
    auto sent = co_await channel.send(std::move(message), {.length = *got->byte_count()});
    if (sent.result) buffer = std::move(sent.buffer);
  }
}

// [ask]
vb::Task<std::uint64_t> ask(vb::Channel& channel, vb::Pool& pool, std::uint64_t number) {
  auto receiving = channel.receive(pool.try_take());  // starts here; nobody waits yet
  vb::Buffer question = pool.try_take();
  std::memcpy(question.bytes().data(), &number, sizeof number);
  auto sent = co_await channel.send(std::move(question), {.length = sizeof number});
  auto [answer, got] = co_await std::move(receiving);
  expect(sent.result && got, "no answer");
  std::memcpy(&number, answer.bytes().data(), sizeof number);
  co_return number;
}
// [/ask]

vb::Task<vb::Result<void>> run_all(vb::Reactor& reactor, vb::Channel& one, vb::Channel& two,
                                   vb::Pool& pool) {
  // [all]
  const auto [first, second] = co_await when_all(ask(one, pool, 1), ask(two, pool, 2));
  // [/all]
  expect(first == 1 && second == 2, "wrong answers");

  // [any]
  auto from_one = one.receive(pool.try_take());
  auto from_two = two.receive(pool.try_take());
  auto sending = two.send(pool.try_take(), {.length = 1});  // its peer answers
  const std::size_t which = co_await when_any(from_one, from_two);
  auto came = co_await std::move(which == 0 ? from_one : from_two);  // the other continues
  // [/any]
  expect(which == 1 && came.result && (co_await std::move(sending)).result, "wrong channel");

  // [take]
  vb::Result<vb::Buffer> spare = co_await reactor.take(pool, 1s);  // waits while all are out
  // [/take]
  expect(spare.has_value(), "no buffer");

  // [thread]
  bool is_done = false;
  std::jthread other{[&] {
    // Something that takes long. Then the reactor's thread takes over the result.
    reactor.submit([&] { is_done = true; });
  }};
  while (!is_done) co_await reactor.sleep(1ms);
  // [/thread]

  // [deadline]
  auto [buffer, result] = co_await wait_until(std::move(from_one), 20ms);  // nobody sends
  if (!result && result.error() == vb::Errc::timed_out) {
    // The device has returned the buffer, and nothing can be written to it any more.
    std::printf("%zu bytes are back; %s\n", buffer.size(), to_string(one).c_str());
  }
  // [/deadline]
  expect(!result && buffer && one.cause(), "no end");
  expect(!two.cause(), "the other channel noticed");
  co_return vb::Result<void>{};
}

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto reactor = VERBATIM_TRY(vb::Reactor::create(domain));
  auto pool = VERBATIM_TRY(vb::Pool::create(domain, {.bytes = kBytes, .count = 16}));
  auto [one, first_server] = VERBATIM_TRY(vb::connect_pair(domain, {.on = reactor}));
  auto [two, second_server] = VERBATIM_TRY(vb::connect_pair(domain, {.on = reactor}));
  reactor.spawn(echo(first_server, pool.try_take()));
  reactor.spawn(echo(second_server, pool.try_take()));
  return reactor.run(run_all(reactor, one, two, pool));
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
