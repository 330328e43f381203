// SPDX-License-Identifier: MIT OR Apache-2.0
// The other functions that a libibverbs exports: those that need no device, and those for objects
// that no device here creates. Under LD_PRELOAD the installed library provides them.
#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/environment.hpp"
#include "preload/original.hpp"

namespace {

struct Rate {
  ibv_rate rate;
  int gigabits;  // By name; real lanes differ a little.
  int megabits;
};
constexpr Rate kRates[] = {
    {IBV_RATE_5_GBPS, 5, 5000},       {IBV_RATE_10_GBPS, 10, 10000},
    {IBV_RATE_14_GBPS, 14, 14062},    {IBV_RATE_20_GBPS, 20, 20000},
    {IBV_RATE_25_GBPS, 25, 25781},    {IBV_RATE_28_GBPS, 28, 28125},
    {IBV_RATE_30_GBPS, 30, 30000},    {IBV_RATE_40_GBPS, 40, 40000},
    {IBV_RATE_50_GBPS, 50, 53125},    {IBV_RATE_56_GBPS, 56, 56250},
    {IBV_RATE_60_GBPS, 60, 60000},    {IBV_RATE_80_GBPS, 80, 80000},
    {IBV_RATE_100_GBPS, 100, 103125}, {IBV_RATE_112_GBPS, 112, 112500},
    {IBV_RATE_120_GBPS, 120, 120000}, {IBV_RATE_168_GBPS, 168, 168750},
    {IBV_RATE_200_GBPS, 200, 206250}, {IBV_RATE_300_GBPS, 300, 309375},
    {IBV_RATE_400_GBPS, 400, 425000}, {IBV_RATE_600_GBPS, 600, 637500},
    {IBV_RATE_800_GBPS, 800, 850000}, {IBV_RATE_1200_GBPS, 1200, 1275000},
};

/// In multiples of 2.5 Gbit/s, the slowest rate.
constexpr int multiple_of(const Rate& rate) noexcept { return rate.gigabits * 2 / 5; }

template <class Predicate>
const Rate* find_rate(Predicate&& is_it) noexcept {
  const auto* const found = std::find_if(std::begin(kRates), std::end(kRates), is_it);
  return found != std::end(kRates) ? found : nullptr;
}

template <std::size_t Count, class Value>
const char* text_of(const char* const (&texts)[Count], Value value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < Count && texts[index] != nullptr ? texts[index] : "unknown";
}

// Indexed by the values of the enumerations in verbs.h.
constexpr const char* kStatus[] = {"success",
                                   "local length error",
                                   "local QP operation error",
                                   "local EE context operation error",
                                   "local protection error",
                                   "work request flushed",
                                   "memory window bind error",
                                   "bad response",
                                   "local access error",
                                   "remote invalid request",
                                   "remote access error",
                                   "remote operation error",
                                   "transport retry count exceeded",
                                   "receiver not ready: retry count exceeded",
                                   "local RDD violation",
                                   "remote invalid RD request",
                                   "aborted",
                                   "invalid EE context number",
                                   "invalid EE context state",
                                   "fatal error",
                                   "response timeout",
                                   "general error",
                                   "tag matching error",
                                   "tag matching rendezvous incomplete"};
constexpr const char* kEvents[] = {"CQ error",
                                   "QP fatal error",
                                   "QP request error",
                                   "QP access error",
                                   "connection established",
                                   "send queue drained",
                                   "path migrated",
                                   "path migration failed",
                                   "device fatal error",
                                   "port active",
                                   "port error",
                                   "LID changed",
                                   "P_Key table changed",
                                   "SM changed",
                                   "SRQ error",
                                   "SRQ limit reached",
                                   "last WQE reached",
                                   "client reregistration",
                                   "GID table changed",
                                   "WQ fatal error"};
constexpr const char* kNodeTypes[] = {
    nullptr,         "channel adapter", "switch",           "router",
    "iWARP adapter", "usNIC adapter",   "usNIC UDP adapter"};
constexpr const char* kPortStates[] = {"no state change", "down",   "initializing",
                                       "armed",           "active", "active, deferred"};

struct Opaque;

int unsupported() noexcept {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}
int no_descriptor() noexcept {
  errno = EOPNOTSUPP;
  return -1;
}

}  // namespace

VERBATIM_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  if (rate == IBV_RATE_2_5_GBPS) return 1;
  const Rate* const found = find_rate([&](const Rate& each) { return each.rate == rate; });
  return found != nullptr ? multiple_of(*found) : -1;
}
VERBATIM_EXPORT ibv_rate mult_to_ibv_rate(int multiple) {
  if (multiple == 1) return IBV_RATE_2_5_GBPS;
  const Rate* const found =
      find_rate([&](const Rate& each) { return multiple_of(each) == multiple; });
  return found != nullptr ? found->rate : IBV_RATE_MAX;
}
VERBATIM_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  if (rate == IBV_RATE_2_5_GBPS) return 2500;
  const Rate* const found = find_rate([&](const Rate& each) { return each.rate == rate; });
  return found != nullptr ? found->megabits : -1;
}
VERBATIM_EXPORT ibv_rate mbps_to_ibv_rate(int megabits) {
  if (megabits == 2500) return IBV_RATE_2_5_GBPS;
  const Rate* const found = find_rate([&](const Rate& each) { return each.megabits == megabits; });
  return found != nullptr ? found->rate : IBV_RATE_MAX;
}

VERBATIM_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  return text_of(kStatus, status);
}
VERBATIM_EXPORT const char* ibv_event_type_str(ibv_event_type type) {
  return text_of(kEvents, type);
}
VERBATIM_EXPORT const char* ibv_node_type_str(ibv_node_type type) {
  return text_of(kNodeTypes, type);
}
VERBATIM_EXPORT const char* ibv_port_state_str(ibv_port_state state) {
  return text_of(kPortStates, state);
}

// Memory needs no preparation for a fork, because the device looks it up at each use.
VERBATIM_EXPORT int ibv_fork_init() { return 0; }
VERBATIM_EXPORT ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
VERBATIM_EXPORT int ibv_dontfork_range(void*, std::size_t) { return 0; }
VERBATIM_EXPORT int ibv_dofork_range(void*, std::size_t) { return 0; }

VERBATIM_EXPORT const char* ibv_get_sysfs_path() {
  const char* const named = verbatim::environment("SYSFS_PATH");
  return named != nullptr ? named : "/sys";
}

// librdmacm passes on what the kernel's rdma_cm returned. Without a kernel device there is nothing,
// but programs that are linked with librdmacm need these functions to start.
VERBATIM_EXPORT void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, Opaque*) { *to = {}; }
VERBATIM_EXPORT void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, Opaque*) { *to = {}; }
VERBATIM_EXPORT void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, Opaque*) { *to = {}; }
VERBATIM_EXPORT void ibv_copy_path_rec_to_kern(Opaque*, ibv_sa_path_rec*) {}

// For objects that no program can have, because we create none.
VERBATIM_EXPORT int ibv_dealloc_dmah(Opaque*) { return unsupported(); }
VERBATIM_EXPORT int ibv_dm_export_dmabuf_fd(Opaque*) { return no_descriptor(); }
VERBATIM_EXPORT void ibv_free_buf(Opaque*) {}
VERBATIM_EXPORT int ibv_export_buf_dmabuf_fd(Opaque*) { return no_descriptor(); }
VERBATIM_EXPORT int ibv_destroy_comp_cntr(Opaque*) { return unsupported(); }
VERBATIM_EXPORT int ibv_set_comp_cntr(Opaque*, std::uint64_t) { return unsupported(); }
VERBATIM_EXPORT int ibv_set_err_comp_cntr(Opaque*, std::uint64_t) { return unsupported(); }
VERBATIM_EXPORT int ibv_inc_comp_cntr(Opaque*, std::uint64_t) { return unsupported(); }
VERBATIM_EXPORT int ibv_inc_err_comp_cntr(Opaque*, std::uint64_t) { return unsupported(); }
VERBATIM_EXPORT int ibv_read_comp_cntr(Opaque*, std::uint64_t*) { return unsupported(); }
VERBATIM_EXPORT int ibv_read_err_comp_cntr(Opaque*, std::uint64_t*) { return unsupported(); }
