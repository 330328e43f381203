// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What every case works with, and what a case is.
///
/// A case is one function in a separate file. It sends the message of the fixture `operations`
/// times and waits for each completion, in the way in which a user of that layer writes it.
/// Failures go to `report()`, which is out of line and takes them by reference, like error handling
/// in real programs. The compiler therefore has to keep results in memory.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "raw.h"
#include "verbatim/verbatim.hpp"

namespace verbatim::overhead {

struct Fixture {
  Context context;
  ProtectionDomain domain;
  std::vector<std::byte> memory;
  MemoryRegion region;
  CompletionQueue queue;
  QueuePair queue_pair;
  std::span<const std::byte> message;  ///< Dynamic extent: bounds are checked at run time.
  raw_connection raw;                  ///< The same objects, as plain verbs.
};

struct Case {
  const char* name;
  const char* base;  ///< The case in C that does the same.
  void (*run)(Fixture& fixture, long operations);
};

void raw(Fixture& fixture, long operations);
void queue_pair(Fixture& fixture, long operations);
void soft_inprocess(Fixture& fixture, long operations);
void raw_batch(Fixture& fixture, long operations);
void channel_blocking(Fixture& fixture, long operations);
void channel_buffer(Fixture& fixture, long operations);  ///< The same, with a Buffer.
void channel_owned(Fixture& fixture, long operations);
void channel_unsafe(Fixture& fixture, long operations);
void channel_scope(Fixture& fixture, long operations);
void channel_scope_each(Fixture& fixture, long operations);
void channel_detached(Fixture& fixture, long operations);  ///< In groups of 16.
void channel_batch(Fixture& fixture, long operations);     ///< In groups of 16.
void async_send(Fixture& fixture, long operations);        ///< One coroutine.
void async_send16(Fixture& fixture, long operations);      ///< 16 coroutines, each on a channel.
void async_task(Fixture& fixture, long operations);        ///< One task for each operation.
void async_tags(Fixture& fixture, long operations);        ///< 16 in flight, the program's loop.
void async_asio(Fixture& fixture, long operations);        ///< One Asio coroutine.
void multi_multicast(Fixture& fixture, long operations);   ///< To 7 peers; each is an operation.
void cache_find(Fixture& fixture, long operations);        ///< Finds two in turn, drops them.
void pool_take(Fixture& fixture, long operations);         ///< Takes and drops, several sizes.

[[noreturn]] VERBATIM_COLD void report(const Error& error);
[[noreturn]] VERBATIM_COLD void report(const Completion& completion);
template <class T>
[[noreturn]] VERBATIM_COLD void report(const Result<T>& failed) {
  report(failed.error());
}

template <class T>
T need(Result<T> result) {
  if (!result) report(result);
  return *std::move(result);
}
/// A reactor that logs nothing when the processor was away for a while: that would count.
inline Reactor make_reactor(const Fixture& fixture) {
  return need(Reactor::create(fixture.domain, {.warn = std::chrono::hours{1}}));
}
/// A channel that is connected to itself. The null provider completes whatever is posted.
inline Channel connect_to_itself(const Fixture& fixture, const ChannelOptions& options = {}) {
  auto prepared = need(PreparedChannel::create(fixture.domain, options));
  const Endpoint self = prepared.endpoint();
  return need(std::move(prepared).connect(self));
}

}  // namespace verbatim::overhead
