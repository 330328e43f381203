// SPDX-License-Identifier: MIT OR Apache-2.0
// The verbs layer from device to completion: a queue pair connected to itself sends a message.
#include <verbatim/verbatim.hpp>

#include <array>
#include <cstdio>
#include <cstring>

namespace vb = verbatim;
using namespace std::chrono_literals;

namespace {

// [readme]
vb::Result<void> run() {
  auto context = VERBATIM_TRY(vb::open_device());  // the first device whose port is up
  auto domain = VERBATIM_TRY(context.allocate_domain());
  auto channel = VERBATIM_TRY(context.create_completion_channel());
  auto queue = VERBATIM_TRY(context.create_completion_queue({.depth = 256, .channel = channel}));
  auto prepared = VERBATIM_TRY(vb::QueuePair::prepare({.domain = domain,
                                                       .send_completions = queue,
                                                       .receive_completions = queue,
                                                       .access = vb::AccessFlags{}}));
  const vb::Endpoint peer = prepared.endpoint();  // a real peer's comes over the network
  auto queue_pair = VERBATIM_TRY(std::move(prepared).connect(peer));

  auto tx = VERBATIM_TRY(domain.allocate(64));  // registered memory that we own
  auto rx = VERBATIM_TRY(domain.allocate(64));
  std::strcpy(reinterpret_cast<char*>(tx.bytes().data()), "hello, RDMA");

  VERBATIM_TRY(vb::unsafe::post(queue_pair, vb::Receive{rx.scatter()}, vb::WrId{1}));
  VERBATIM_TRY(vb::unsafe::post(queue_pair, vb::Send{tx.gather(0, 12)}, vb::WrId{2}));
  std::array<vb::Completion, 16> batch;
  for (std::size_t done = 0, n = 0; done < 2; done += n) {
    n = VERBATIM_TRY(queue.wait(batch, 5s));  // sleeps, but never longer than that
    for (const auto& completion : std::span{batch}.first(n))
      if (!completion.ok()) std::puts(vb::to_string(completion.error()).c_str());
  }
  std::printf("received: %s\n", reinterpret_cast<const char*>(rx.bytes().data()));
  return {};
}
// [/readme]

}  // namespace

int main() {
  if (const auto outcome = run(); !outcome) {
    std::fprintf(stderr, "%s\n", vb::explain(outcome.error()).c_str());
    return 1;
  }
}
