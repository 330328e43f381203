// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The verbs objects that every part of the engine knows, as their owner keeps them.
///
/// Each begins with the public C structure, so that a pointer to one is a pointer to the other.
/// What peers need of an object is in the shared segment (layout.hpp). What the owner trusts is in
/// private memory, because peers can write to the segment. Completion queues are in completer/,
/// shared receive queues in responder/, queue pairs in requester/.
///
/// Types only. Control verbs create and free the objects, in any thread. Has the locks `events` (a
/// context's queue of events) and `domain` (a domain's list of queue pairs). Not hot.
#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"

namespace verbatim::engine {

class Engine;

/// Vendor libraries look after the public structure for their own data; there must be zeros.
struct Device {
  ibv_device raw;
  std::byte zeros[64];
  std::uint32_t index;
  ibv_gid gid;
};

/// Cries of a context for its owner: events that came up where none can be raised.
enum Cry : std::uint32_t { cry_port_down = 1, cry_removed = 2 };

struct Context {
  verbs_context extended;  // Its last member is the ibv_context that programs hold.
  std::shared_ptr<Engine> engine;
  Device* device = nullptr;
  Ranked<LockRank::events, std::mutex> event_mutex;
  std::deque<ibv_async_event> events;  // The descriptor is readable exactly while there are some.
  std::map<const void*, unsigned> unacknowledged;  // By object; programs acknowledge events.
  std::condition_variable_any acknowledged;
  std::atomic<std::uint32_t> objects{0};
  std::atomic<bool> removed{false};  // The device is gone, or the process is ending.
  std::atomic<std::uint32_t> cries{0};

  [[nodiscard]] static Context& of(ibv_context* raw) noexcept {
    return *reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(raw) -
                                       offsetof(verbs_context, context));
  }
};

struct Domain {
  ibv_pd raw;
  std::uint32_t id;
  std::atomic<std::uint32_t> users{0};
  Ranked<LockRank::domain, std::mutex> mutex;
  std::vector<std::uint32_t>
      queue_pairs;  // Their indices: a requester inside one touches our memory.
};

struct Region {
  ibv_mr raw;
  SharedRegion* trusted;  // For our own requests,
  SharedRegion* shared;   // and for those of peers, where they can write.
};

struct AddressHandle {
  ibv_ah raw;
  ibv_ah_attr attributes;
};

static_assert(offsetof(Domain, raw) == 0 && offsetof(Region, raw) == 0);

}  // namespace verbatim::engine
