// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/abi/context_operations.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "soft/abi/extended_verbs.hpp"
#include "soft/completer/poll.hpp"
#include "soft/control/device.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/control/shared_receive_queue.hpp"
#include "soft/requester/post.hpp"

namespace verbatim::engine {
namespace {

// The structures that all versions of verbs.h agree on. They have not changed since 2006.
static_assert(sizeof(ibv_device) == 664 && sizeof(ibv_context) == 328);
static_assert(sizeof(ibv_qp) == 160 && sizeof(ibv_cq) == 128 && sizeof(ibv_srq) == 128);
static_assert(sizeof(ibv_mr) == 48 && sizeof(ibv_wc) == 48 && sizeof(ibv_sge) == 16);
static_assert(sizeof(ibv_send_wr) == 128 && sizeof(ibv_recv_wr) == 32);
static_assert(sizeof(ibv_gid_entry) == 32 && offsetof(ibv_port_attr, port_cap_flags2) == 48);
// rdma-core extends the first four structures at the end. It extends verbs_context at the front,
// because programs hold a pointer to the ibv_context at its end.
static_assert(sizeof(ibv_port_attr) >= 52 && sizeof(ibv_device_attr_ex) >= 400);
static_assert(sizeof(ibv_qp_ex) >= 352 && sizeof(ibv_cq_ex) >= 288);
static_assert(offsetof(verbs_context, context) + sizeof(ibv_context) == sizeof(verbs_context));
static_assert(offsetof(verbs_context, sz) + sizeof(std::size_t) ==
              offsetof(verbs_context, context));
// A pointer to an extended object is also a pointer to the plain object, and to our object.
static_assert(offsetof(ibv_qp_ex, qp_base) == 0);
static_assert(offsetof(Device, raw) == 0);

/// A verb that is not supported: takes any arguments, and fails in the way its result type
/// requires.
template <class Function>
struct Unsupported;
template <class R, class... Args>
struct Unsupported<R (*)(Args...)> {
  static R call(Args...) noexcept {
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<R>) return nullptr;
    if constexpr (std::is_integral_v<R>) return static_cast<R>(EOPNOTSUPP);
  }
};
template <class Function>
void refuse(Function& slot) noexcept {
  slot = &Unsupported<Function>::call;
}

template <class Structure>
void copy_prefix(Structure* to, const Structure& from, std::size_t size) noexcept {
  std::memset(to, 0, size);
  std::memcpy(to, &from, std::min(size, sizeof from));
}

int refuse_requests(ibv_srq*, ibv_ops_wr* request, ibv_ops_wr** rejected) noexcept {
  *rejected = request;
  return EOPNOTSUPP;
}

void refuse_the_rest(verbs_context& context) noexcept {
  refuse(context.advise_mr);
  refuse(context.alloc_null_mr);
  refuse(context.read_counters);
  refuse(context.attach_counters_point_flow);
  refuse(context.create_counters);
  refuse(context.destroy_counters);
  refuse(context.reg_dm_mr);
  refuse(context.alloc_dm);
  refuse(context.free_dm);
  refuse(context.modify_flow_action_esp);
  refuse(context.destroy_flow_action);
  refuse(context.create_flow_action_esp);
  refuse(context.modify_qp_rate_limit);
  refuse(context.alloc_parent_domain);
  refuse(context.dealloc_td);
  refuse(context.alloc_td);
  refuse(context.modify_cq);
  context.post_srq_ops = &refuse_requests;
  refuse(context.destroy_rwq_ind_table);
  refuse(context.create_rwq_ind_table);
  refuse(context.destroy_wq);
  refuse(context.modify_wq);
  refuse(context.create_wq);
  refuse(context.ibv_destroy_flow);
  refuse(context.ibv_create_flow);
  refuse(context.open_qp);
  refuse(context.get_srq_num);
  refuse(context.create_srq_ex);
  refuse(context.open_xrcd);
  refuse(context.close_xrcd);
}

}  // namespace

int query_port_sized(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                     std::size_t size) noexcept {
  ibv_port_attr ours;
  if (const int failed = query_port(context, port, &ours)) return failed;
  copy_prefix(attributes, ours, size);
  return 0;
}

int query_device_sized(ibv_context* context, const ibv_query_device_ex_input* input,
                       ibv_device_attr_ex* attributes, std::size_t size) noexcept {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < sizeof attributes->orig_attr) return EINVAL;
  ibv_device_attr_ex ours;
  if (const int failed = query_device(context, &ours)) return failed;
  copy_prefix(attributes, ours, size);
  return 0;
}

ibv_context* open_filled(ibv_device* device) { return open_device(device, &fill_operations); }

void fill_operations(verbs_context& context) noexcept {
  context.sz = sizeof context;
  refuse_the_rest(context);
  context.query_port = &query_port_sized;
  context.query_device_ex = &query_device_sized;
  fill_extended(context);
  ibv_context_ops& plain = context.context.ops;
  plain.poll_cq = &poll;
  plain.req_notify_cq = &arm;
  plain.post_send = &post_send;
  plain.post_recv = &post_receive;
  plain.post_srq_recv = &post_shared_receive;
  refuse(plain.alloc_mw);
  refuse(plain.bind_mw);
  refuse(plain.dealloc_mw);
}

}  // namespace verbatim::engine
