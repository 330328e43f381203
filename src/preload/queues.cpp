// SPDX-License-Identifier: MIT OR Apache-2.0
// Completion channels and queues, queue pairs, shared receive queues, events.
#include "preload/dispatch.hpp"
#include "soft/abi/extended_verbs.hpp"
#include "soft/abi/inherited.hpp"
#include "soft/abi/scripted_verbs.hpp"
#include "soft/control/completion_channel.hpp"
#include "soft/control/completion_queue.hpp"
#include "soft/control/events.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/control/shared_receive_queue.hpp"

namespace verbatim::preload {
namespace {

/// Mixing the objects of different devices is an error, which the kernel detects. So do we.
template <class... Objects>
bool are_soft(const Objects*... objects) noexcept {
  return ((objects == nullptr || is_soft(objects)) && ...);
}

ibv_cq* create_queue(ibv_context* context, int depth, void* user, ibv_comp_channel* channel,
                     int vector) noexcept {
  if (!are_soft(channel)) {
    errno = EINVAL;
    return nullptr;
  }
  return engine::kScripted<engine::create_completion_queue>(context, depth, user, channel, vector);
}

ibv_qp* create_pair(ibv_pd* domain, ibv_qp_init_attr* init) noexcept {
  if (!are_soft(init->send_cq, init->recv_cq, init->srq)) {
    errno = EINVAL;
    return nullptr;
  }
  return engine::kScripted<engine::create_queue_pair>(domain, init);
}

/// Data is written in strong order only at the end of a message, which is not what this query asks
/// for.
int data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) noexcept { return 0; }

int query_ece(ibv_qp*, ibv_ece* options) noexcept {
  *options = {};
  return EOPNOTSUPP;
}

/// Whether the event's object is ours. Events of a port or device have no object, and need no
/// acknowledgement.
enum class Owner { nobody, soft, real };
Owner owner_of(const ibv_async_event& event) noexcept {
  bool ours = false;
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: ours = is_soft(event.element.cq); break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: ours = is_soft(event.element.srq); break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: ours = is_soft(event.element.qp); break;
    case IBV_EVENT_WQ_FATAL: return Owner::real;
    default: return Owner::nobody;
  }
  return ours ? Owner::soft : Owner::real;
}

}  // namespace
}  // namespace verbatim::preload

using namespace verbatim::preload;
namespace engine = verbatim::engine;
namespace preload = verbatim::preload;

VERBATIM_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return dispatch<"ibv_create_comp_channel", "IBVERBS_1.0",
                  engine::kScripted<engine::create_channel>>(context);
}

VERBATIM_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return dispatch<"ibv_destroy_comp_channel", "IBVERBS_1.0",
                  engine::kDestroying<engine::destroy_channel>>(channel);
}

VERBATIM_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* user,
                                      ibv_comp_channel* channel, int vector) {
  return dispatch<"ibv_create_cq", "IBVERBS_1.1", &create_queue>(context, depth, user, channel,
                                                                 vector);
}

VERBATIM_EXPORT int ibv_resize_cq(ibv_cq* queue, int depth) {
  return dispatch<"ibv_resize_cq", "IBVERBS_1.1",
                  engine::kScripted<engine::resize_completion_queue>>(queue, depth);
}

VERBATIM_EXPORT int ibv_destroy_cq(ibv_cq* queue) {
  return dispatch<"ibv_destroy_cq", "IBVERBS_1.1",
                  engine::kDestroying<engine::destroy_completion_queue>>(queue);
}

VERBATIM_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
  return dispatch_waiting<"ibv_get_cq_event", "IBVERBS_1.1",
                          engine::kEventful<engine::get_completion_event>>(channel, queue, user);
}

VERBATIM_EXPORT void ibv_ack_cq_events(ibv_cq* queue, unsigned count) {
  dispatch<"ibv_ack_cq_events", "IBVERBS_1.1", &engine::acknowledge_completion_events>(queue,
                                                                                       count);
}

VERBATIM_EXPORT ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* init) {
  return dispatch<"ibv_create_qp", "IBVERBS_1.1", &create_pair>(domain, init);
}

VERBATIM_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* queue_pair) {
  return dispatch<"ibv_qp_to_qp_ex", "IBVERBS_1.6", &engine::to_extended>(queue_pair);
}

VERBATIM_EXPORT int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  return dispatch<"ibv_modify_qp", "IBVERBS_1.1", engine::kScripted<engine::modify_queue_pair>>(
      queue_pair, attributes, mask);
}

VERBATIM_EXPORT int ibv_query_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask,
                                 ibv_qp_init_attr* init) {
  return dispatch<"ibv_query_qp", "IBVERBS_1.1", engine::kScripted<engine::query_queue_pair>>(
      queue_pair, attributes, mask, init);
}

VERBATIM_EXPORT int ibv_query_qp_data_in_order(ibv_qp* queue_pair, ibv_wr_opcode opcode,
                                               std::uint32_t flags) {
  return dispatch<"ibv_query_qp_data_in_order", "IBVERBS_1.14", &data_in_order>(queue_pair, opcode,
                                                                                flags);
}

VERBATIM_EXPORT int ibv_destroy_qp(ibv_qp* queue_pair) {
  return dispatch<"ibv_destroy_qp", "IBVERBS_1.1", engine::kDestroying<engine::destroy_queue_pair>>(
      queue_pair);
}

VERBATIM_EXPORT int ibv_attach_mcast(ibv_qp* queue_pair, const ibv_gid* gid, std::uint16_t lid) {
  return dispatch<"ibv_attach_mcast", "IBVERBS_1.1", kUnsupported<int>>(queue_pair, gid, lid);
}

VERBATIM_EXPORT int ibv_detach_mcast(ibv_qp* queue_pair, const ibv_gid* gid, std::uint16_t lid) {
  return dispatch<"ibv_detach_mcast", "IBVERBS_1.1", kUnsupported<int>>(queue_pair, gid, lid);
}

VERBATIM_EXPORT int ibv_set_ece(ibv_qp* queue_pair, ibv_ece* options) {
  return dispatch<"ibv_set_ece", "IBVERBS_1.10", kUnsupported<int>>(queue_pair, options);
}

VERBATIM_EXPORT int ibv_query_ece(ibv_qp* queue_pair, ibv_ece* options) {
  return dispatch<"ibv_query_ece", "IBVERBS_1.10", &query_ece>(queue_pair, options);
}

VERBATIM_EXPORT ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* init) {
  return dispatch<"ibv_create_srq", "IBVERBS_1.1", engine::kScripted<engine::create_shared_queue>>(
      domain, init);
}

VERBATIM_EXPORT int ibv_modify_srq(ibv_srq* queue, ibv_srq_attr* attributes, int mask) {
  return dispatch<"ibv_modify_srq", "IBVERBS_1.1", engine::kScripted<engine::modify_shared_queue>>(
      queue, attributes, mask);
}

VERBATIM_EXPORT int ibv_query_srq(ibv_srq* queue, ibv_srq_attr* attributes) {
  return dispatch<"ibv_query_srq", "IBVERBS_1.1", engine::kScripted<engine::query_shared_queue>>(
      queue, attributes);
}

VERBATIM_EXPORT int ibv_destroy_srq(ibv_srq* queue) {
  return dispatch<"ibv_destroy_srq", "IBVERBS_1.1",
                  engine::kDestroying<engine::destroy_shared_queue>>(queue);
}

VERBATIM_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return dispatch_waiting<"ibv_get_async_event", "IBVERBS_1.1",
                          engine::kEventful<engine::get_event>>(context, event);
}

VERBATIM_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  static constinit Original<void(ibv_async_event*)> original{"ibv_ack_async_event", "IBVERBS_1.1"};
  switch (owner_of(*event)) {
    case Owner::soft: return engine::acknowledge_event(event);
    case Owner::real: return original(event);
    case Owner::nobody: return;
  }
}
