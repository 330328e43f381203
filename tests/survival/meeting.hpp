// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Like join() of conformance/peer_session.hpp, and able to meet it, for tests that choose
/// more: the queues, the memory, the options.
#include <array>
#include <optional>

#include "conformance/peer_session.hpp"
#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim::test {

struct Meeting {
  QueuePair queue_pair;
  RemoteMemoryRegion peer_memory;
};

/// Both sides call this (or the other one calls join()): it exchanges endpoints and regions, and
/// connects.
[[nodiscard]] inline Meeting meet(Link& link, const QueuePairOptions& options,
                                  const RemoteMemoryRegion& memory = {}) {
  auto prepared = require(QueuePair::prepare(options));
  link.send(encode(prepared.endpoint()));
  const Endpoint peer = require(decode_endpoint(link.receive()));
  link.send(encode(memory));
  const auto peer_memory = require(decode_remote_memory(link.receive()));
  QueuePair queue_pair = require(std::move(prepared).connect(peer));
  link.barrier();  // From here on both can receive.
  return {std::move(queue_pair), peer_memory};
}

}  // namespace verbatim::test
