// SPDX-License-Identifier: MIT OR Apache-2.0
// Failures: a deadline that passes, a stop request, and a channel that is reconnected.
#include <verbatim/verbatim.hpp>

#include <cstdio>
#include <stop_token>
#include <thread>
#include <utility>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

vb::Error unexpected_outcome() { return {.code = vb::Errc::malformed, .operation = "verify"}; }

vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto [left, right] = VERBATIM_TRY(vb::connect_pair(domain));

  // [deadline]
  auto late = right.receive(VERBATIM_TRY(domain.allocate(64))).wait(50ms);  // nobody sends
  if (late.result || late.result.error() != vb::Errc::timed_out)
    return std::unexpected(unexpected_outcome());
  // No DMA can land in late.buffer any more. To make sure of that, the channel had to end.
  std::printf("%s; the channel: %s\n", vb::to_string(late.result.error()).c_str(),
              vb::to_string(*right.cause()).c_str());

  std::stop_source stop;
  left.cancel_on(stop.get_token());
  std::jthread other([&] { stop.request_stop(); });  // from any thread, at any time
  auto stopped = left.receive(VERBATIM_TRY(domain.allocate(64))).wait(10s);
  if (stopped.result || !left.cause() || left.cause()->code != vb::Errc::cancelled)
    return std::unexpected(unexpected_outcome());
  std::printf("%s\n", vb::to_string(*left.cause()).c_str());

  auto again_left = VERBATIM_TRY(std::move(left).recycle());  // same memory, new connection
  auto again_right = VERBATIM_TRY(std::move(right).recycle());
  const vb::Endpoint left_endpoint = again_left.endpoint();
  auto from = VERBATIM_TRY(std::move(again_left).connect(again_right.endpoint()));
  auto to = VERBATIM_TRY(std::move(again_right).connect(left_endpoint));
  // [/deadline]
  auto receiving = to.receive(std::move(late.buffer));
  VERBATIM_TRY(from.send(std::move(stopped.buffer)).wait().result);
  const auto received = receiving.wait();
  VERBATIM_TRY(received.result);
  std::printf("connected again: %u bytes received\n", *received.result->byte_count());
  return {};
}

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
