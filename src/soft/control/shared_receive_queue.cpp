// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/shared_receive_queue.hpp"

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

#include "soft/control/device.hpp"
#include "soft/control/events.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

ibv_srq* create_shared_queue(ibv_pd* domain, ibv_srq_init_attr* init) noexcept {
  Context& context = Context::of(domain->context);
  Engine& engine = *context.engine;
  auto queue = std::unique_ptr<SharedReceiveQueue>{new (std::nothrow) SharedReceiveQueue{}};
  if (queue == nullptr || init->attr.max_sge > kMaxElements || init->attr.max_wr == 0 ||
      init->attr.max_wr > kMaxRequests) {
    errno = queue == nullptr ? ENOMEM : EINVAL;
    return nullptr;
  }
  queue->engine = &engine;
  queue->index = engine.shared_queues.reserve(2);
  SharedReceives* const shared =
      queue->index < kSharedQueues ? &engine.segment().shared_receives[queue->index] : nullptr;
  int failed = ENOMEM;
  if (shared != nullptr) {
    const auto backed = engine.own().back(shared, sizeof *shared);
    failed = backed ? 0 : errno_of(backed.error());
  }
  if (failed == 0)
    failed = make_ring(engine, *shared, queue->receives, init->attr.max_wr, init->attr.max_sge,
                       init->attr.max_wr);
  if (failed != 0) {
    if (shared != nullptr) engine.shared_queues.remove(queue->index);
    errno = failed;
    return nullptr;
  }
  queue->receives.is_shared = true;
  queue->raw.context = domain->context;
  queue->raw.srq_context = init->srq_context;
  queue->raw.pd = domain;
  queue->raw.handle = queue->index;
  engine.shared_queues.show(queue->index, queue.get());
  reinterpret_cast<Domain*>(domain)->users.fetch_add(1);
  return &queue.release()->raw;
}

int modify_shared_queue(ibv_srq* raw, ibv_srq_attr* attributes, int mask) noexcept {
  auto& queue = *reinterpret_cast<SharedReceiveQueue*>(raw);
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    if (attributes->srq_limit > queue.receives.depth) return EINVAL;
    LongWord& limit = queue.receives.shared->limit;
    std::uint64_t before = limit.load();
    while (!limit.compare_exchange_weak(
        before, limit_word(armings_of(before) + 1, attributes->srq_limit))) {
    }
    // The requester that takes the receive below the limit may find the owner asleep.
    if (attributes->srq_limit != 0) queue.engine->start_helper();
  }
  return 0;
}

int query_shared_queue(ibv_srq* raw, ibv_srq_attr* attributes) noexcept {
  const auto& queue = *reinterpret_cast<SharedReceiveQueue*>(raw);
  *attributes = {.max_wr = queue.receives.depth,
                 .max_sge = queue.receives.max_elements,
                 .srq_limit = limit_of(queue.receives.shared->limit.load())};
  return 0;
}

int destroy_shared_queue(ibv_srq* raw) {
  auto* const queue = reinterpret_cast<SharedReceiveQueue*>(raw);
  if (queue->users.load() != 0) return EBUSY;
  std::unique_lock removing{queue->engine->lifetime, std::defer_lock};
  lock_without_events(removing, Context::of(raw->context), raw);
  queue->engine->shared_queues.remove(queue->index);
  free_ring(*queue->engine, queue->receives);
  reinterpret_cast<Domain*>(raw->pd)->users.fetch_sub(1);
  delete queue;
  return 0;
}

int post_shared_receive(ibv_srq* raw, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept {
  auto& queue = *reinterpret_cast<SharedReceiveQueue*>(raw);
  return post_receives(*queue.engine, queue.lock, queue.receives, requests, rejected);
}

}  // namespace verbatim::engine
