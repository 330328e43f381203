// SPDX-License-Identifier: MIT OR Apache-2.0
// Queues of the null provider: completion queues, queue pairs, and shared receive queues.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "null_control.hpp"
#include "null_objects.hpp"

namespace verbatim::null {
namespace {

// ---- Completions

ibv_comp_channel* create_comp_channel(ibv_context* context) { return new Channel{mine(context)}; }

int destroy_comp_channel(ibv_comp_channel* channel) {
  if (mine(channel)->users != 0) return EBUSY;
  delete mine(channel);
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** context) {
  if (mine(channel)->events.take(*queue) != 0) return -1;
  ++mine(*queue)->unacknowledged;
  *context = (*queue)->cq_context;
  return 0;
}

void ack_cq_events(ibv_cq* queue, unsigned count) {
  mine(queue)->unacknowledged -= static_cast<int>(count);
}

ibv_cq* create_cq(ibv_context* context, int depth, void* user, ibv_comp_channel* channel,
                  int vector) {
  if (depth < 1 || depth > knobs.device.max_cqe || vector < 0 ||
      vector >= context->num_comp_vectors)
    return refuse<ibv_cq>(EINVAL);
  return new CompletionQueue{mine(context), user, mine(channel),
                             static_cast<std::uint32_t>(depth) + knobs.extra_depth};
}

int resize_cq(ibv_cq* raw, int depth) {
  CompletionQueue& queue = *mine(raw);
  const std::uint32_t held = queue.head - queue.tail;
  if (depth < 1 || depth > knobs.device.max_cqe || static_cast<std::uint32_t>(depth) < held)
    return EINVAL;
  queue.cqe = depth + static_cast<int>(knobs.extra_depth);
  return 0;
}

int destroy_cq(ibv_cq* raw) {
  CompletionQueue* const queue = mine(raw);
  if (queue->users != 0 || !forget_events(queue->context, queue->unacknowledged)) return EBUSY;
  if (queue->channel != nullptr)
    mine(queue->channel)->events.drop([=](ibv_cq* each) { return each == queue; });
  delete queue;
  return 0;
}

// ---- Queues

bool fits(const ibv_qp_cap& cap) {
  const auto max_requests = static_cast<std::uint32_t>(knobs.device.max_qp_wr);
  const auto max_elements = static_cast<std::uint32_t>(knobs.device.max_sge);
  return cap.max_send_wr <= max_requests && cap.max_recv_wr <= max_requests &&
         cap.max_send_sge <= max_elements && cap.max_recv_sge <= max_elements &&
         cap.max_inline_data <= knobs.max_inline_bytes;
}

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* init) {
  static std::atomic<std::uint32_t> next_number{0x100};
  if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UC && init->qp_type != IBV_QPT_UD)
    return refuse<ibv_qp>(EOPNOTSUPP);
  if (init->send_cq == nullptr || init->recv_cq == nullptr || !fits(init->cap))
    return refuse<ibv_qp>(EINVAL);
  init->cap.max_send_wr += knobs.extra_depth;
  if (init->srq != nullptr)
    init->cap.max_recv_wr = init->cap.max_recv_sge = 0;
  else
    init->cap.max_recv_wr += knobs.extra_depth;
  return new QueuePair{mine(domain), *init, next_number++ & 0xffffff};
}

bool transition_exists(ibv_qp_state from, ibv_qp_state to) {
  switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR: return true;
    case IBV_QPS_INIT: return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
    case IBV_QPS_RTR: return from == IBV_QPS_INIT;
    case IBV_QPS_RTS:
      return from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD ||
             from == IBV_QPS_SQE;
    case IBV_QPS_SQD: return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
    default: return false;
  }
}

/// Copies the attributes that the mask names.
void store(ibv_qp_attr& to, const ibv_qp_attr& from, int mask) {
  const auto take = [&](int bit, auto member) {
    if ((mask & bit) != 0) to.*member = from.*member;
  };
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
}

int modify_qp(ibv_qp* raw, ibv_qp_attr* attributes, int mask) {
  QueuePair& queue_pair = *mine(raw);
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes->cur_qp_state != queue_pair.state) return EINVAL;
  if ((mask & IBV_QP_PORT) != 0 && !has_port(attributes->port_num)) return EINVAL;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : queue_pair.state;
  if (!transition_exists(queue_pair.state, to)) return EINVAL;
  store(queue_pair.attributes, *attributes, mask);
  if (to == IBV_QPS_RESET) {
    mine(queue_pair.send_cq)->purge(&queue_pair);
    queue_pair.posted = queue_pair.receives = 0;
    queue_pair.retired = 0;
    queue_pair.attributes = {};
  }
  queue_pair.enter(to);
  return 0;
}

int query_qp(ibv_qp* raw, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  const QueuePair& queue_pair = *mine(raw);
  *attributes = queue_pair.attributes;
  attributes->cur_qp_state = queue_pair.state;
  attributes->cap = queue_pair.cap;
  *init = queue_pair.init;
  return 0;
}

int destroy_qp(ibv_qp* raw) {
  QueuePair* const queue_pair = mine(raw);
  if (!forget_events(queue_pair->context, queue_pair->unacknowledged)) return EBUSY;
  delete queue_pair;
  return 0;
}

ibv_srq* create_srq(ibv_pd* domain, ibv_srq_init_attr* init) {
  if (init->attr.max_wr == 0 ||
      init->attr.max_wr > static_cast<std::uint32_t>(knobs.device.max_srq_wr) ||
      init->attr.max_sge > static_cast<std::uint32_t>(knobs.device.max_srq_sge))
    return refuse<ibv_srq>(EINVAL);
  init->attr.max_wr += knobs.extra_depth;
  return new SharedQueue{mine(domain), *init};
}

int modify_srq(ibv_srq* raw, ibv_srq_attr* attributes, int mask) {
  ibv_srq_attr& held = mine(raw)->attributes;
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attributes->srq_limit > held.max_wr) return EINVAL;
  held.srq_limit = attributes->srq_limit;
  return 0;
}

int query_srq(ibv_srq* raw, ibv_srq_attr* attributes) {
  *attributes = mine(raw)->attributes;
  return 0;
}

int destroy_srq(ibv_srq* raw) {
  SharedQueue* const queue = mine(raw);
  if (queue->users != 0 || !forget_events(queue->context, queue->unacknowledged)) return EBUSY;
  delete queue;
  return 0;
}

}  // namespace

void add_queues(Provider& table) {
  table.create_comp_channel = &create_comp_channel;
  table.destroy_comp_channel = &destroy_comp_channel;
  table.get_cq_event = &get_cq_event;
  table.ack_cq_events = &ack_cq_events;
  table.create_cq = &create_cq;
  table.resize_cq = &resize_cq;
  table.destroy_cq = &destroy_cq;
  table.create_qp = &create_qp;
  table.modify_qp = &modify_qp;
  table.query_qp = &query_qp;
  table.destroy_qp = &destroy_qp;
  table.create_srq = &create_srq;
  table.modify_srq = &modify_srq;
  table.query_srq = &query_srq;
  table.destroy_srq = &destroy_srq;
}

}  // namespace verbatim::null
