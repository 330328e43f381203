// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/queue_pair.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <memory>
#include <new>

#include "base/transition_table.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/control/device.hpp"
#include "soft/control/events.hpp"
#include "soft/control/ghosts.hpp"
#include "soft/memory/access_guard.hpp"
#include "soft/requester/retry.hpp"
#include "soft/requester/route.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/addresses.hpp"
#include "soft/shared/changes.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

int check_limits(const ibv_pd& domain, const ibv_qp_init_attr& init) noexcept {
  if (init.send_cq == nullptr || init.recv_cq == nullptr) return EINVAL;
  // All objects must belong to one context, as the kernel requires.
  if (init.send_cq->context != domain.context || init.recv_cq->context != domain.context ||
      (init.srq != nullptr && init.srq->context != domain.context))
    return EINVAL;
  if (init.qp_type != IBV_QPT_RC && init.qp_type != IBV_QPT_UC && init.qp_type != IBV_QPT_UD)
    return EOPNOTSUPP;
  const ibv_qp_cap& cap = init.cap;
  if (cap.max_send_wr > kMaxRequests || cap.max_recv_wr > kMaxRequests ||
      cap.max_send_sge > kMaxElements || cap.max_recv_sge > kMaxElements ||
      cap.max_inline_data > kMaxInline)
    return EINVAL;
  return 0;
}

bool is_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, unsigned mask) noexcept {
  const auto* const attributes = detail::transition_attributes(type, from, to);
  if (attributes == nullptr) return false;
  const unsigned given = mask & ~unsigned{IBV_QP_STATE};
  return (given & attributes->required) == attributes->required &&
         (given & ~(attributes->required | attributes->optional)) == 0;
}

/// Creates the parts that need memory. release_parts() undoes this.
int make_parts(QueuePair& queue_pair, const ibv_qp_init_attr& init) noexcept {
  Engine& engine = *queue_pair.engine;
  queue_pair.index = engine.receive_sides.reserve(2 + (engine.tag() >> 11) % 8192);
  if (queue_pair.index == kQueuePairs) return ENOMEM;
  queue_pair.shared = &engine.segment().queue_pairs[queue_pair.index];
  queue_pair.route.visiting = &queue_pair.shared->visiting;
  if (const auto backed = engine.own().back(queue_pair.shared, sizeof(SharedQueuePair)); !backed)
    return errno_of(backed.error());
  queue_pair.waiting_capacity = std::bit_ceil(std::max(queue_pair.limits.max_send_wr, 1u));
  queue_pair.waiting.reset(new (std::nothrow) Waiting[queue_pair.waiting_capacity]);
  const std::size_t inline_bytes =
      std::size_t{queue_pair.waiting_capacity} * queue_pair.limits.max_inline_data;
  queue_pair.inline_data.reset(new (std::nothrow) std::byte[inline_bytes + 1]);
  if (!queue_pair.waiting || !queue_pair.inline_data) return ENOMEM;
  if (init.srq != nullptr) return 0;
  return make_ring(engine, queue_pair.shared->receives, queue_pair.receives,
                   queue_pair.limits.max_recv_wr, queue_pair.limits.max_recv_sge);
}

void publish(const QueuePair& queue_pair) noexcept {
  SharedQueuePair& shared = *queue_pair.shared;
  shared.state.store(IBV_QPS_RESET);
  shared.type = queue_pair.raw.qp_type;
  shared.domain = queue_pair.domain;
  shared.access = 0;
  shared.peer.store(0);
  shared.receive_completions = queue_pair.receive_completions->index;
  shared.shared_receives =
      queue_pair.shared_receives != nullptr ? queue_pair.shared_receives->index + 1 : 0;
  shared.device = queue_pair.context->device->index;
  shared.established.store(0);
  shared.watches.store(0);
  shared.visiting.store(0);
  shared.receives.entered.store(0);
  shared.receives.touching.store(0);
  shared.receives.fault.store(0);
  shared.number = queue_pair.raw.qp_num;
}

void count_users(QueuePair& queue_pair, int change) {
  const auto step = static_cast<std::uint32_t>(change);
  auto& domain = *reinterpret_cast<Domain*>(queue_pair.raw.pd);
  {
    const std::lock_guard lock{domain.mutex};
    if (change > 0)
      domain.queue_pairs.push_back(queue_pair.index);
    else
      std::erase(domain.queue_pairs, queue_pair.index);
  }
  queue_pair.send_completions->users.fetch_add(step);
  queue_pair.receive_completions->users.fetch_add(step);
  if (queue_pair.shared_receives != nullptr) queue_pair.shared_receives->users.fetch_add(step);
  reinterpret_cast<Domain*>(queue_pair.raw.pd)->users.fetch_add(step);
}

enum class Left : std::uint8_t { yes, haunted, no };
/// Waits until no requester is inside. A process may be stopped (by a signal or a debugger) while
/// it is inside. If it is accessing memory other than the receives of this queue pair, it is
/// harmless, and the queue pair becomes a ghost (`haunted`). If it is accessing one of the
/// receives, the result is `no`.
Left wait_for_all(QueuePair& queue_pair,
                  std::chrono::milliseconds patience = kLeavePatience) noexcept {
  if (wait_until_left(*queue_pair.engine, *queue_pair.shared, patience) == 0) return Left::yes;
  const auto touched = touched_inside(*queue_pair.engine, *queue_pair.shared);
  if (!touched) return Left::no;
  const bool ours = uses_key(queue_pair.ring_lock(), *queue_pair.side.ring, *touched);
  return *touched != 0 && ours ? Left::no : Left::haunted;
}

/// Offers receives again that a dead requester took from the shared queue and never completed.
void take_back_receives(QueuePair& queue_pair) noexcept {
  if (queue_pair.shared_receives == nullptr) return;
  settle(*queue_pair.engine, *queue_pair.receive_completions);
  offer_again(queue_pair.shared_receives->lock, queue_pair.shared_receives->receives,
              queue_pair.index + 1);
}

/// Forbids entry, waits until no requester is inside, and completes all outstanding work as
/// flushed.
int to_error(QueuePair& queue_pair, std::chrono::milliseconds patience = kLeavePatience) noexcept {
  Engine& engine = *queue_pair.engine;
  {
    const std::lock_guard lock{queue_pair.lock};
    queue_pair.set_state(IBV_QPS_ERR);
    queue_pair.attributes.qp_state = IBV_QPS_ERR;
  }
  queue_pair.shared->state.store(IBV_QPS_ERR);
  count_change(engine.segment());
  const Left left = wait_for_all(queue_pair, patience);
  if (left == Left::no) return EBUSY;
  engine.forget(queue_pair);
  const bool again = queue_pair.is_flushed.exchange(true);  // Before the flush: see post_receive().
  flush_sends(queue_pair);
  flush_receives(engine, queue_pair.receive_lock, queue_pair.side);
  if (left == Left::yes) take_back_receives(queue_pair);
  if (queue_pair.shared_receives != nullptr && !again)
    raise_event(*queue_pair.context, IBV_EVENT_QP_LAST_WQE_REACHED, &queue_pair.raw);
  return 0;
}

/// Forgets the destination of the queue pair. The caller holds the lock.
void leave_route(QueuePair& queue_pair) noexcept {
  queue_pair.known.forget();
  queue_pair.delivery.forget();
  queue_pair.delivery.holds = false;
  queue_pair.route.target = nullptr;
  queue_pair.route.peer = nullptr;
  queue_pair.peer = {};
}

int to_reset(QueuePair& queue_pair) noexcept {
  Engine& engine = *queue_pair.engine;
  queue_pair.shared->state.store(IBV_QPS_RESET);
  count_change(engine.segment());
  const Left left = wait_for_all(queue_pair);
  if (left == Left::no) return EBUSY;
  engine.forget(queue_pair);
  // Waits for a thread that is about to flush the queue pair. No completion is pushed after the
  // purge.
  const std::unique_lock alone{engine.lifetime};
  queue_pair.is_flushed.store(false);
  if (left == Left::yes) take_back_receives(queue_pair);
  purge(engine, *queue_pair.send_completions, queue_pair.side);
  if (queue_pair.receive_completions != queue_pair.send_completions)
    purge(engine, *queue_pair.receive_completions, queue_pair.side);
  if (queue_pair.shared_receives == nullptr)
    clear_receives(queue_pair.receive_lock, queue_pair.receives);
  const std::lock_guard lock{queue_pair.lock};
  queue_pair.waiting_head = queue_pair.waiting_tail;
  queue_pair.retired.store(queue_pair.posted);
  queue_pair.set_state(IBV_QPS_RESET);
  queue_pair.attributes = {};
  queue_pair.tell_drained = false;
  queue_pair.shared->receives.fault.store(0);
  queue_pair.shared->established.store(0);
  leave_route(queue_pair);
  return 0;
}

void remember(QueuePair& queue_pair, const ibv_qp_attr& from, unsigned mask) noexcept {
  ibv_qp_attr& to = queue_pair.attributes;
  SharedQueuePair& shared = *queue_pair.shared;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    to.qp_access_flags = from.qp_access_flags;
    shared.access = from.qp_access_flags;
  }
  if ((mask & IBV_QP_PKEY_INDEX) != 0) to.pkey_index = from.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) to.port_num = from.port_num;
  if ((mask & IBV_QP_QKEY) != 0) {
    to.qkey = from.qkey;
    shared.queue_key = from.qkey;
  }
  if ((mask & IBV_QP_AV) != 0) to.ah_attr = from.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) to.path_mtu = from.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) to.timeout = from.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) to.retry_cnt = from.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) to.rnr_retry = from.rnr_retry;
  constexpr std::uint32_t kPsnBits = 0xffffff;
  if ((mask & IBV_QP_RQ_PSN) != 0) {
    to.rq_psn = from.rq_psn;
    shared.expected_psn = from.rq_psn & kPsnBits;
  }
  if ((mask & IBV_QP_SQ_PSN) != 0) {
    to.sq_psn = from.sq_psn;
    queue_pair.route.first_psn = from.sq_psn & kPsnBits;
  }
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) to.max_rd_atomic = from.max_rd_atomic;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    shared.max_responses = from.max_dest_rd_atomic;
  }
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) {
    to.min_rnr_timer = from.min_rnr_timer;
    shared.rnr_timer = from.min_rnr_timer;
  }
  if ((mask & IBV_QP_DEST_QPN) != 0) to.dest_qp_num = from.dest_qp_num;
}

int check_values(const ibv_qp_attr& from, unsigned mask) noexcept {
  if ((mask & IBV_QP_PORT) != 0 && from.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && from.pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (from.path_mtu < IBV_MTU_256 || from.path_mtu > IBV_MTU_4096))
    return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && from.max_rd_atomic > kMaxReadAtomic) return EINVAL;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && from.max_dest_rd_atomic > kMaxReadAtomic)
    return EINVAL;
  if ((mask & IBV_QP_AV) != 0 && !is_usable(from.ah_attr)) return EINVAL;
  return 0;
}

/// Moves the queue pair to the error state. The thread that does so has other peers to answer, so
/// it waits for nobody who is inside: it comes back.
void break_now(QueuePair& queue_pair) noexcept {
  constexpr std::chrono::milliseconds kAtMost{1};
  if (to_error(queue_pair, kAtMost) != 0) queue_pair.broken.store(true);
}

void answer_fault(QueuePair& queue_pair) noexcept {
  const std::uint32_t fault = queue_pair.shared->receives.fault.exchange(0);
  const bool overrun =
      queue_pair.send_completions->breaks || queue_pair.receive_completions->breaks;
  if (fault == 0 && !overrun && !queue_pair.context->removed) return;
  if (queue_pair.state() == IBV_QPS_RESET || queue_pair.state() == IBV_QPS_ERR) return;
  break_now(queue_pair);
  if (fault == IBV_WC_REM_ACCESS_ERR)
    raise_event(*queue_pair.context, IBV_EVENT_QP_ACCESS_ERR, &queue_pair.raw);
  if (fault == IBV_WC_REM_INV_REQ_ERR)
    raise_event(*queue_pair.context, IBV_EVENT_QP_REQ_ERR, &queue_pair.raw);
}

}  // namespace

bool answer_cry(QueuePair& queue_pair) noexcept {
  // A failed request moves the queue pair to the error state, unless the program has reset it
  // meanwhile.
  if (queue_pair.broken.exchange(false) && queue_pair.state() == IBV_QPS_ERR) break_now(queue_pair);
  answer_fault(queue_pair);
  std::uint32_t came = 1;
  if (queue_pair.shared->established.compare_exchange_strong(came, 2))
    raise_event(*queue_pair.context, IBV_EVENT_COMM_EST, &queue_pair.raw);
  if (queue_pair.drained.exchange(false))
    raise_event(*queue_pair.context, IBV_EVENT_SQ_DRAINED, &queue_pair.raw);
  return !queue_pair.broken.load();
}

ibv_qp* create_queue_pair(ibv_pd* domain, ibv_qp_init_attr* init) {
  if (const int wrong = check_limits(*domain, *init)) {
    errno = wrong;
    return nullptr;
  }
  auto queue_pair = std::unique_ptr<QueuePair>{new (std::nothrow) QueuePair};
  if (queue_pair == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  queue_pair->context = &Context::of(domain->context);
  queue_pair->engine = queue_pair->context->engine.get();
  lay_ghosts(*queue_pair->engine);
  queue_pair->self = &queue_pair->engine->self();
  queue_pair->lid = lid_of(*queue_pair->context->device);
  queue_pair->domain = reinterpret_cast<Domain*>(domain)->id;
  queue_pair->limits = init->cap;
  queue_pair->limits.max_send_sge = std::max(init->cap.max_send_sge, 1u);
  queue_pair->signal_all = init->sq_sig_all != 0 ? IBV_SEND_SIGNALED : 0;
  queue_pair->route.engine = queue_pair->engine;
  queue_pair->route.last_entry = queue_pair->engine->tag();
  queue_pair->send_completions = &CompletionQueue::of(init->send_cq);
  queue_pair->receive_completions = &CompletionQueue::of(init->recv_cq);
  queue_pair->shared_receives = reinterpret_cast<SharedReceiveQueue*>(init->srq);
  queue_pair->max_message = init->qp_type == IBV_QPT_UD ? kDatagramBytes : kMaxMessage;
  if (const int failed = make_parts(*queue_pair, *init)) {
    if (queue_pair->index != kQueuePairs)
      queue_pair->engine->receive_sides.remove(queue_pair->index);
    errno = failed;
    return nullptr;
  }
  ibv_qp& raw = queue_pair->raw;
  raw.context = domain->context;
  raw.qp_context = init->qp_context;
  raw.pd = domain;
  raw.send_cq = init->send_cq;
  raw.recv_cq = init->recv_cq;
  raw.srq = init->srq;
  raw.handle = queue_pair->index;
  raw.qp_num = number_of(queue_pair->engine->own().slot(), queue_pair->index);
  raw.state = IBV_QPS_RESET;
  raw.qp_type = init->qp_type;
  queue_pair->side = {.queue_pair = queue_pair.get(),
                      .number = raw.qp_num,
                      .retired = &queue_pair->retired,
                      .queue = queue_pair->receive_completions,
                      .ring = init->srq != nullptr ? &queue_pair->shared_receives->receives
                                                   : &queue_pair->receives};
  try {
    count_users(*queue_pair, 1);
  } catch (const std::bad_alloc&) {
    if (init->srq == nullptr) free_ring(*queue_pair->engine, queue_pair->receives);
    queue_pair->engine->receive_sides.remove(queue_pair->index);
    throw;
  }
  init->cap = queue_pair->limits;
  publish(*queue_pair);
  queue_pair->engine->receive_sides.show(queue_pair->index, &queue_pair->side);
  return &queue_pair.release()->raw;
}

int modify_queue_pair(ibv_qp* raw, ibv_qp_attr* attributes, int mask_bits) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  const auto mask = static_cast<unsigned>(mask_bits);
  const ibv_qp_state from = queue_pair.state();
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : from;
  if (!is_allowed(raw->qp_type, from, to, mask)) return EINVAL;
  if (to == IBV_QPS_ERR) return to_error(queue_pair);
  if (to == IBV_QPS_RESET) return to_reset(queue_pair);
  if (const int wrong = check_values(*attributes, mask)) return wrong;
  // A process may have been stopped inside before the queue pair was reset. The old connection is
  // what a thread that takes memory back finds it by.
  const bool connects = to == IBV_QPS_RTR && raw->qp_type != IBV_QPT_UD;
  if (connects && wait_until_left(*queue_pair.engine, *queue_pair.shared) != 0) return EBUSY;
  remember(queue_pair, *attributes, mask);
  if (connects) aim(queue_pair);
  // Any process may send us datagrams, and so raise events that a sleeping program must be woken
  // for.
  if (to == IBV_QPS_RTR && raw->qp_type == IBV_QPT_UD) queue_pair.engine->start_helper();
  const std::lock_guard lock{queue_pair.lock};
  if (queue_pair.state() != from) return EINVAL;  // It broke meanwhile.
  queue_pair.set_state(to);
  queue_pair.attributes.qp_state = to;
  queue_pair.shared->state.store(to);
  count_change(queue_pair.engine->segment());  // The program may have taken rights away.
  // Resumes the requests that were posted while the send queue was drained.
  if (to == IBV_QPS_RTS && queue_pair.has_waiting()) queue_pair.engine->wait_for(queue_pair, 0);
  if (to == IBV_QPS_SQD && from == IBV_QPS_RTS) {
    queue_pair.drain_until = queue_pair.waiting_tail;
    queue_pair.tell_drained =
        (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && attributes->en_sqd_async_notify != 0;
    tell_if_drained(queue_pair);
  }
  return 0;
}

int query_queue_pair(ibv_qp* raw, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  queue_pair.engine->progress();
  {
    const std::lock_guard lock{queue_pair.lock};
    *attributes = queue_pair.attributes;
  }
  attributes->qp_state = queue_pair.state();
  attributes->cur_qp_state = attributes->qp_state;
  attributes->cap = queue_pair.limits;
  if (init != nullptr)
    *init = {.qp_context = raw->qp_context,
             .send_cq = raw->send_cq,
             .recv_cq = raw->recv_cq,
             .srq = raw->srq,
             .cap = queue_pair.limits,
             .qp_type = raw->qp_type,
             .sq_sig_all = queue_pair.signal_all != 0 ? 1 : 0};
  return 0;
}

namespace {

int destroy_and_forget(ibv_qp* raw) {
  auto* const queue_pair = &QueuePair::of(raw);
  Engine& engine = *queue_pair->engine;
  queue_pair->shared->state.store(IBV_QPS_RESET);
  count_change(engine.segment());
  const Left left = wait_for_all(*queue_pair);
  if (left == Left::no) return EBUSY;
  engine.forget(*queue_pair);
  // Waits for a thread that is about to break the queue pair. After that nobody pushes its
  // completions or raises its events.
  std::unique_lock removing{engine.lifetime, std::defer_lock};
  lock_without_events(removing, *queue_pair->context, raw);
  if (left == Left::yes) take_back_receives(*queue_pair);
  purge(engine, *queue_pair->send_completions, queue_pair->side);
  purge(engine, *queue_pair->receive_completions, queue_pair->side);
  queue_pair->shared->number = 0;
  engine.receive_sides.hide(queue_pair->index);
  count_users(*queue_pair, -1);
  if (left == Left::haunted) {
    add_ghost(engine, *queue_pair);
    return 0;
  }
  if (queue_pair->shared_receives == nullptr) free_ring(engine, queue_pair->receives);
  engine.receive_sides.remove(queue_pair->index);
  delete queue_pair;
  return 0;
}

}  // namespace

int destroy_queue_pair(ibv_qp* raw) {
  const std::shared_ptr<Engine> engine = Context::of(raw->context).engine;
  const int failed = destroy_and_forget(raw);
  engine->reclaim();  // The peer may be dead.
  return failed;
}

int post_receive(ibv_qp* raw, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  if (queue_pair.state() == IBV_QPS_RESET || queue_pair.shared_receives != nullptr) {
    *rejected = requests;
    return EINVAL;
  }
  const int failed = post_receives(*queue_pair.engine, queue_pair.receive_lock, queue_pair.receives,
                                   requests, rejected);
  // A receive that is posted in the error state completes at once, as flushed. As long as a
  // requester may still be inside, to_error() has yet to flush it, together with the older ones.
  if (queue_pair.state() == IBV_QPS_ERR && queue_pair.is_flushed.load())
    flush_receives(*queue_pair.engine, queue_pair.receive_lock, queue_pair.side);
  return failed;
}

}  // namespace verbatim::engine
