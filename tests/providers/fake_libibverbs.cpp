// SPDX-License-Identifier: MIT OR Apache-2.0
// A libibverbs.so.1 with the null provider's devices: the same entry points under the same
// versions. So loading, choosing a device and the old calls can be tested without RDMA. A test
// replaces the verbs it wants in `*verbatim_fake_table()`.
#include <cerrno>
#include <cstdlib>

#include "null.hpp"

// verbs.h defines macros or inline functions with these names; this file means the exported
// functions.
#undef ibv_query_port
#undef ibv_reg_mr

#define VERBATIM_EXPORT [[gnu::visibility("default")]]

using verbatim::Provider;

extern "C" {

VERBATIM_EXPORT Provider* verbatim_fake_table() {
  static Provider table = *verbatim_null_provider();
  return &table;
}
/// The answer of ibv_is_fork_initialized(), and the number of calls of ibv_fork_init().
VERBATIM_EXPORT ibv_fork_status verbatim_fake_fork_status = IBV_FORK_DISABLED;
VERBATIM_EXPORT int verbatim_fake_fork_inits = 0;

VERBATIM_EXPORT ibv_device** ibv_get_device_list(int* count) {
  return verbatim_fake_table()->get_device_list(count);
}
VERBATIM_EXPORT void ibv_free_device_list(ibv_device** list) {
  verbatim_fake_table()->free_device_list(list);
}
VERBATIM_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return verbatim_fake_table()->get_device_guid(device);
}
VERBATIM_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  return verbatim_fake_table()->open_device(device);
}
VERBATIM_EXPORT int ibv_close_device(ibv_context* context) {
  return verbatim_fake_table()->close_device(context);
}
VERBATIM_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  ibv_device_attr_ex extended{};
  const int failed = verbatim_fake_table()->query_device(context, &extended);
  *attributes = extended.orig_attr;
  return failed;
}
VERBATIM_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port,
                                   _compat_ibv_port_attr* attributes) {
  // The old structure is a prefix of the new one; its users provide the room of the new one.
  auto* const wide = reinterpret_cast<ibv_port_attr*>(attributes);
  const int failed = verbatim_fake_table()->query_port(context, port, wide);
  // For tests of whole programs, which cannot reach the table.
  const char* const state = std::getenv("FAKE_PORT_STATE");
  if (state != nullptr) wide->state = static_cast<ibv_port_state>(std::atoi(state));
  return failed;
}
VERBATIM_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                             std::size_t max, std::uint32_t, std::size_t) {
  return verbatim_fake_table()->query_gid_table(context, entries, max);
}
VERBATIM_EXPORT int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index,
                                   __be16* key) {
  return verbatim_fake_table()->query_pkey(context, port, index, key);
}
VERBATIM_EXPORT ibv_fork_status ibv_is_fork_initialized() { return verbatim_fake_fork_status; }
VERBATIM_EXPORT int ibv_fork_init() {
  ++verbatim_fake_fork_inits;
  return 0;
}

VERBATIM_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return verbatim_fake_table()->alloc_pd(context);
}
VERBATIM_EXPORT int ibv_dealloc_pd(ibv_pd* domain) {
  return verbatim_fake_table()->dealloc_pd(domain);
}
VERBATIM_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t length, int access) {
  return verbatim_fake_table()->reg_mr(domain, address, length, static_cast<unsigned>(access));
}
VERBATIM_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length,
                                         std::uint64_t iova, unsigned access) {
  if (iova != reinterpret_cast<std::uintptr_t>(address)) {
    errno = EINVAL;
    return nullptr;
  }
  return verbatim_fake_table()->reg_mr(domain, address, length, access);
}
VERBATIM_EXPORT int ibv_dereg_mr(ibv_mr* region) { return verbatim_fake_table()->dereg_mr(region); }

VERBATIM_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* user,
                                      ibv_comp_channel* channel, int vector) {
  return verbatim_fake_table()->create_cq(context, depth, user, channel, vector);
}
VERBATIM_EXPORT int ibv_destroy_cq(ibv_cq* queue) {
  return verbatim_fake_table()->destroy_cq(queue);
}
VERBATIM_EXPORT ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  return verbatim_fake_table()->create_qp(domain, attributes);
}
VERBATIM_EXPORT int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  return verbatim_fake_table()->modify_qp(queue_pair, attributes, mask);
}
VERBATIM_EXPORT int ibv_query_qp(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask,
                                 ibv_qp_init_attr* init) {
  return verbatim_fake_table()->query_qp(queue_pair, attributes, mask, init);
}
VERBATIM_EXPORT int ibv_destroy_qp(ibv_qp* queue_pair) {
  return verbatim_fake_table()->destroy_qp(queue_pair);
}
VERBATIM_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return verbatim_fake_table()->get_async_event(context, event);
}
VERBATIM_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  verbatim_fake_table()->ack_async_event(event);
}

// ibv_resize_cq, shared receive queues, address handles, channels, dmabuf and the query of data
// order are left out. A library may lack them, and a missing function must fail when it is called.
}
