// SPDX-License-Identifier: MIT OR Apache-2.0
#include <array>

#include "fixture.hpp"

namespace verbatim::overhead {
namespace {

/// Two queue pairs of this process, connected to each other on the software device.
struct Pair {
  CompletionQueue queue;
  Buffer source;
  SharedRegion target;
  QueuePair near;
  QueuePair far;
};

Pair make_pair() {
  Context context =
      need(need(list_devices(soft_provider())).at(0).open({.events = EventDelivery::manual}));
  const ProtectionDomain domain = need(context.allocate_domain());
  CompletionQueue queue = need(context.create_completion_queue({.depth = 1024}));
  Buffer source = need(domain.allocate(4096));
  SharedRegion target = need(domain.allocate_shared(4096, Access::remote_write));
  const auto prepare = [&] {
    return need(QueuePair::prepare({.domain = domain,
                                    .send_completions = queue,
                                    .receive_completions = queue,
                                    .access = Access::remote_write}));
  };
  auto near = prepare();
  auto far = prepare();
  const Endpoint near_endpoint = near.endpoint();
  const Endpoint far_endpoint = far.endpoint();
  QueuePair near_connected = need(std::move(near).connect(far_endpoint));
  QueuePair far_connected = need(std::move(far).connect(near_endpoint));
  return {std::move(queue), std::move(source), std::move(target), std::move(near_connected),
          std::move(far_connected)};
}

}  // namespace

/// The whole software device: it checks, executes and completes a write of 8 bytes during the post;
/// then the case polls.
void soft_inprocess(Fixture&, long operations) {
  static Pair pair = make_pair();  // In the first call, which does not count.
  const std::span<const std::byte> message = pair.source.bytes().first(8);
  const RemoteMemoryRegion remote = *pair.target.remote().sub_region(64, 8);
  for (long i = 0; i < operations; ++i) {
    const WrId id{static_cast<std::uint64_t>(i)};
    const auto posted =
        unsafe::post(pair.near, Write{pair.source.region().gather(message), remote}, id);
    if (!posted) report(posted);

    std::array<Completion, 1> done;
    for (;;) {
      const auto count = pair.queue.poll(done);
      if (!count) report(count);
      if (*count != 0) break;
    }
    if (!done[0].ok() || done[0].id() != id) report(done[0]);
  }
}

}  // namespace verbatim::overhead
