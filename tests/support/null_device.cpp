// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/null_device.hpp"

#include <utility>

namespace verbatim::test {

NullDevice::NullDevice() { knobs = {}; }

void NullDevice::TearDown() {
  EXPECT_EQ(live(), 0) << "objects of the device that nobody destroyed";
  knobs = {};
}

Context NullDevice::open(ContextOptions options) {
  const auto devices = require(list_devices(table));
  if (devices.empty())
    give_up("the null provider lists no device", std::source_location::current());
  return require(devices.front().open(std::move(options)));
}

CompletionQueue make_queue(const Context& context, std::uint32_t depth) {
  return require(context.create_completion_queue({.depth = depth}));
}

QueuePairOptions options_for(const ProtectionDomain& domain, const CompletionQueue& queue) {
  const bool atomics = domain.context().capabilities().atomics;
  return {
      .domain = domain,
      .send_completions = queue,
      .receive_completions = queue,
      .access = atomics ? kRemoteAccess : kRemoteAccess.without(Access::remote_atomic),
  };
}

QueuePair loop_back(PreparedQueuePair prepared) {
  const Endpoint self = prepared.endpoint();
  return require(std::move(prepared).connect(self));
}

Result<PreparedQueuePair> Bench::prepare(
    const std::function<void(QueuePairOptions&)>& change) const {
  QueuePairOptions wanted = options();
  if (change) change(wanted);
  return QueuePair::prepare(wanted);
}

QueuePair Bench::connected(const std::function<void(QueuePairOptions&)>& change) const {
  return loop_back(require(prepare(change)));
}

namespace {

// A verb is a plain function, so its notes are outside any object.
std::vector<Modification> modifications;

int note_and_modify(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  modifications.push_back({*attributes, static_cast<unsigned>(mask)});
  return verbatim_null_provider()->modify_qp(queue_pair, attributes, mask);
}

}  // namespace

const std::vector<Modification>& note_modifications(Provider& table) {
  modifications.clear();
  table.modify_qp = &note_and_modify;
  return modifications;
}

}  // namespace verbatim::test
