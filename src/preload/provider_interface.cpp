// SPDX-License-Identifier: MIT OR Apache-2.0
// For the stand-alone library: what drivers import from libibverbs. Some programs are linked
// directly with drivers (libmlx5, libefa), and would not start without these. This library never
// lists a driver's devices, so nobody calls these functions for one.
#include <cerrno>
#include <cstdint>

#include "preload/original.hpp"

VERBATIM_EXPORT int verbatim_refuse() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}
VERBATIM_EXPORT void* verbatim_refuse_pointer() {
  errno = EOPNOTSUPP;
  return nullptr;
}
VERBATIM_EXPORT void verbatim_ignore() {}
VERBATIM_EXPORT const char* verbatim_unknown() { return "unknown"; }

#define VERBATIM_REFUSE(name) VERBATIM_EXPORT int name() __attribute__((alias("verbatim_refuse")));
#define VERBATIM_REFUSE_POINTER(name) \
  VERBATIM_EXPORT void* name() __attribute__((alias("verbatim_refuse_pointer")));
#define VERBATIM_IGNORE(name) VERBATIM_EXPORT void name() __attribute__((alias("verbatim_ignore")));

// Calls into the kernel: those of the newest release, and those that older releases had.
// clang-format off: it never gets to the end of this list
#define VERBATIM_COMMANDS(X) \
    X(advise_mr) X(alloc_dm) X(alloc_dmah) X(alloc_mw) X(alloc_pd) X(attach_mcast) X(close_xrcd) \
    X(create_ah) X(create_comp_cntr) X(create_counters) X(create_cq) X(create_cq_ex) \
    X(create_cq_ex2) X(create_flow) X(create_flow_action_esp) X(create_qp) X(create_qp_ex) \
    X(create_qp_ex2) X(create_rwq_ind_table) X(create_srq) X(create_srq_ex) X(create_wq) \
    X(dealloc_mw) X(dealloc_pd) X(dereg_mr) X(destroy_ah) X(destroy_comp_cntr) \
    X(destroy_counters) X(destroy_cq) X(destroy_flow) X(destroy_flow_action) X(destroy_qp) \
    X(destroy_rwq_ind_table) X(destroy_srq) X(destroy_wq) X(detach_mcast) X(export_dmabuf_fd) \
    X(free_dm) X(free_dmah) X(get_context) X(inc_comp_cntr) X(inc_err_comp_cntr) X(modify_cq) \
    X(modify_flow_action_esp) X(modify_qp) X(modify_qp_ex) X(modify_srq) X(modify_wq) X(open_qp) \
    X(open_xrcd) X(poll_cq) X(post_recv) X(post_send) X(post_srq_recv) X(qp_attach_comp_cntr) \
    X(query_comp_cntr_caps) X(query_context) X(query_device) X(query_device_any) \
    X(query_device_ex) X(query_mr) X(query_port) X(query_port_speed) X(query_qp) X(query_srq) \
    X(read_comp_cntr) X(read_counters) X(read_err_comp_cntr) X(reg_dm_mr) X(reg_dmabuf_mr) \
    X(reg_mr) X(reg_mr_ex) X(req_notify_cq) X(rereg_mr) X(resize_cq) X(set_comp_cntr) \
    X(set_err_comp_cntr)
// clang-format on
#define VERBATIM_COMMAND(name) VERBATIM_REFUSE(ibv_cmd_##name)
VERBATIM_COMMANDS(VERBATIM_COMMAND)

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the drivers' names
VERBATIM_REFUSE(execute_ioctl)
VERBATIM_REFUSE(ibv_get_fw_ver)
VERBATIM_REFUSE(ibv_read_ibdev_sysfs_file)
VERBATIM_REFUSE(ibv_dmabuf_heap_cc_shared_init)
VERBATIM_REFUSE_POINTER(_verbs_init_and_alloc_context)
VERBATIM_REFUSE_POINTER(verbs_open_device)
VERBATIM_REFUSE_POINTER(ibv_dmabuf_heap_alloc)
VERBATIM_IGNORE(__verbs_log)
VERBATIM_IGNORE(ibv_dmabuf_heap_destroy)
VERBATIM_IGNORE(ibv_dmabuf_heap_free)
VERBATIM_IGNORE(verbs_init_cq)
VERBATIM_IGNORE(verbs_set_ops)
VERBATIM_IGNORE(verbs_uninit_context)
VERBATIM_EXPORT unsigned __ioctl_final_num_attrs() { return 0; }
VERBATIM_EXPORT const char* ibv_wr_opcode_str() __attribute__((alias("verbatim_unknown")));
VERBATIM_EXPORT const bool verbs_allow_disassociate_destroy = false;

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// A driver calls this function when it is loaded. The name contains the release for which the
// driver was built.
#define VERBATIM_TEN_RELEASES(tens)                \
  VERBATIM_IGNORE(verbs_register_driver_##tens##0) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##1) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##2) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##3) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##4) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##5) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##6) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##7) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##8) \
  VERBATIM_IGNORE(verbs_register_driver_##tens##9)
VERBATIM_TEN_RELEASES(1)
VERBATIM_TEN_RELEASES(2)
VERBATIM_TEN_RELEASES(3)
VERBATIM_TEN_RELEASES(4)
VERBATIM_TEN_RELEASES(5)
VERBATIM_TEN_RELEASES(6)
VERBATIM_TEN_RELEASES(7)
VERBATIM_TEN_RELEASES(8)
VERBATIM_TEN_RELEASES(9)
