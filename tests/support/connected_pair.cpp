// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/connected_pair.hpp"

#include "support/pattern.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {

namespace {

struct PreparedSide {
  CompletionQueue sends;
  CompletionQueue receives;
  PreparedQueuePair prepared;
};

PreparedSide prepare(const ProtectionDomain& domain, const PairOptions& options,
                     const ChangeOptions& change) {
  const Context context = domain.context();
  const auto queue = [&] {
    std::optional<CompletionChannel> channel;
    if (options.channels) channel = require(context.create_completion_channel());
    return completion_queue(context, options.completion_depth, channel);
  };
  const CompletionQueue sends = queue();
  const CompletionQueue receives = queue();
  QueuePairOptions wanted = queue_pair_options(domain, sends, receives);
  wanted.type = options.type;
  if (options.both) options.both(wanted);
  if (change) change(wanted);
  auto prepared = require(QueuePair::prepare(wanted));
  // The change may have given the queue pair other completion queues.
  return {wanted.send_completions, wanted.receive_completions, std::move(prepared)};
}

std::pair<Side, Side> connect(const ProtectionDomain& domain, const PairOptions& options) {
  PreparedSide local = prepare(domain, options, options.local);
  PreparedSide remote = prepare(domain, options, options.remote);
  const Endpoint local_endpoint = local.prepared.endpoint();
  const auto ready = [&](PreparedSide side, const Endpoint& peer) -> Side {
    auto queue_pair = options.type == QueuePairType::unreliable_datagram
                          ? std::move(side.prepared).activate()
                          : std::move(side.prepared).connect(peer);
    return {side.sends, side.receives, require(std::move(queue_pair))};
  };
  Side first = ready(std::move(local), remote.prepared.endpoint());
  return {std::move(first), ready(std::move(remote), local_endpoint)};
}

void send_one(ConnectedPair& pair, Side& from, Side& to, std::size_t bytes) {
  const std::uint64_t seed = test_seed();
  ScatteredMemory source(pair.domain, bytes, 1, seed);
  ScatteredMemory sink(pair.domain, bytes, 1, seed);
  source.fill(seed);
  to.post(Receive{sink.scatter()}, 1);
  from.post(Send{source.gather()}, 2);
  EXPECT_EQ(poll_ok(from.sends).id(), WrId{2});
  const Completion received = poll_ok(to.receives);
  EXPECT_EQ(received.id(), WrId{1});
  EXPECT_EQ(received.byte_count(), bytes);
  EXPECT_TRUE(sink.holds(seed));
}

}  // namespace

ConnectedPair::ConnectedPair(const PairOptions& options)
    : ConnectedPair(require(open_context().allocate_domain()), options) {}

ConnectedPair::ConnectedPair(const ProtectionDomain& shared_domain, const PairOptions& options)
    : ConnectedPair(shared_domain, connect(shared_domain, options)) {}

ConnectedPair::ConnectedPair(const ProtectionDomain& shared_domain, std::pair<Side, Side> sides)
    : context(shared_domain.context()),
      domain(shared_domain),
      local(std::move(sides.first)),
      remote(std::move(sides.second)) {}

QueuePairOptions queue_pair_options(const ProtectionDomain& domain, const CompletionQueue& sends,
                                    const CompletionQueue& receives) {
  const bool atomics = domain.context().capabilities().atomics;
  return {
      .domain = domain,
      .send_completions = sends,
      .receive_completions = receives,
      .access = atomics ? kRemoteAccess : kRemoteAccess.without(Access::remote_atomic),
      .max_send_requests = 16,
      .max_receive_requests = 16,
  };
}

void be_patient(QueuePairOptions& options) {
  options.ack_timeout = require(AckTimeout::at_least(std::chrono::seconds{4}));
  options.max_ack_retries = require(MaxAckRetries::limited(7));
}

CompletionQueue completion_queue(const Context& context, std::uint32_t depth,
                                 std::optional<CompletionChannel> channel) {
  return require(context.create_completion_queue({.depth = depth, .channel = std::move(channel)}));
}

void exchange(ConnectedPair& pair, std::size_t bytes) {
  send_one(pair, pair.local, pair.remote, bytes);
  send_one(pair, pair.remote, pair.local, bytes);
}

}  // namespace verbatim::test
