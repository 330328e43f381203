// SPDX-License-Identifier: MIT OR Apache-2.0
// Verbs that take one of our objects, but that we do not implement. The installed verbs.h may be
// older than some of them, so unknown structures are passed on as opaque pointers.
#include "preload/dispatch.hpp"

namespace {
struct Opaque;
}  // namespace

using namespace verbatim::preload;

VERBATIM_EXPORT ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  return dispatch<"ibv_import_pd", "IBVERBS_1.10", kUnsupported<ibv_pd*>>(context, handle);
}
VERBATIM_EXPORT void ibv_unimport_pd(ibv_pd* domain) {
  dispatch<"ibv_unimport_pd", "IBVERBS_1.10", kUnsupported<void>>(domain);
}
VERBATIM_EXPORT ibv_mr* ibv_import_mr(ibv_pd* domain, std::uint32_t handle) {
  return dispatch<"ibv_import_mr", "IBVERBS_1.10", kUnsupported<ibv_mr*>>(domain, handle);
}
VERBATIM_EXPORT void ibv_unimport_mr(ibv_mr* region) {
  dispatch<"ibv_unimport_mr", "IBVERBS_1.10", kUnsupported<void>>(region);
}
VERBATIM_EXPORT ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  return dispatch<"ibv_import_dm", "IBVERBS_1.13", kUnsupported<ibv_dm*>>(context, handle);
}
VERBATIM_EXPORT void ibv_unimport_dm(ibv_dm* memory) {
  dispatch<"ibv_unimport_dm", "IBVERBS_1.13", kUnsupported<void>>(memory);
}
VERBATIM_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* path,
                                                std::uint8_t mac[ETHERNET_LL_SIZE],
                                                std::uint16_t* vlan) {
  return dispatch<"ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1", kUnsupported<int>>(context, path,
                                                                                   mac, vlan);
}
VERBATIM_EXPORT Opaque* ibv_alloc_dmah(ibv_context* context, Opaque* init) {
  return dispatch<"ibv_alloc_dmah", "IBVERBS_1.15", kUnsupported<Opaque*>>(context, init);
}
VERBATIM_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd* domain, Opaque* init) {
  return dispatch<"ibv_reg_mr_ex", "IBVERBS_1.15", kUnsupported<ibv_mr*>>(domain, init);
}
VERBATIM_EXPORT void* ibv_alloc_buf(ibv_pd* domain, std::size_t size, Opaque** handle) {
  return dispatch<"ibv_alloc_buf", "IBVERBS_1.17", kUnsupported<void*>>(domain, size, handle);
}
VERBATIM_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd* domain, Opaque* handle, void* address,
                                       std::size_t length, int access) {
  return dispatch<"ibv_reg_buf_mr", "IBVERBS_1.17", kUnsupported<ibv_mr*>>(domain, handle, address,
                                                                           length, access);
}
// NOLINTNEXTLINE(readability-identifier-naming): rdma-core's name
VERBATIM_EXPORT int _ibv_query_comp_cntr_caps(ibv_context* context, Opaque* caps,
                                              std::size_t size) {
  return dispatch<"_ibv_query_comp_cntr_caps", "IBVERBS_1.18", kUnsupported<int>>(context, caps,
                                                                                  size);
}
VERBATIM_EXPORT Opaque* ibv_create_comp_cntr(ibv_context* context, Opaque* init) {
  return dispatch<"ibv_create_comp_cntr", "IBVERBS_1.18", kUnsupported<Opaque*>>(context, init);
}
VERBATIM_EXPORT int ibv_qp_attach_comp_cntr(ibv_qp* queue_pair, Opaque* counter, Opaque* init) {
  return dispatch<"ibv_qp_attach_comp_cntr", "IBVERBS_1.18", kUnsupported<int>>(queue_pair, counter,
                                                                                init);
}
