// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/transition_table.hpp"

#include <array>

namespace verbatim::detail {
namespace {

struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  TransitionAttributes rc;
  TransitionAttributes uc;
  TransitionAttributes ud;
};

constexpr unsigned kPort = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr unsigned kConnect = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr unsigned kMigrate = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
constexpr unsigned kLive = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | kMigrate;
constexpr unsigned kRetries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;

/// The transitions on which the specification's table and the kernel's check agree. RESET and ERR
/// can be reached from (almost) every state: see transition_attributes().
constexpr std::array kTable = {
    Row{.from = IBV_QPS_RESET,
        .to = IBV_QPS_INIT,
        .rc = {.required = kPort | IBV_QP_ACCESS_FLAGS},
        .uc = {.required = kPort | IBV_QP_ACCESS_FLAGS},
        .ud = {.required = kPort | IBV_QP_QKEY}},
    Row{.from = IBV_QPS_INIT,
        .to = IBV_QPS_INIT,
        .rc = {.optional = kPort | IBV_QP_ACCESS_FLAGS},
        .uc = {.optional = kPort | IBV_QP_ACCESS_FLAGS},
        .ud = {.optional = kPort | IBV_QP_QKEY}},
    Row{.from = IBV_QPS_INIT,
        .to = IBV_QPS_RTR,
        .rc = {.required = kConnect | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
               .optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        .uc = {.required = kConnect,
               .optional = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        .ud = {.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    Row{.from = IBV_QPS_RTR,
        .to = IBV_QPS_RTS,
        .rc = {.required = kRetries | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
               .optional = kLive | IBV_QP_MIN_RNR_TIMER},
        .uc = {.required = IBV_QP_SQ_PSN, .optional = kLive},
        .ud = {.required = IBV_QP_SQ_PSN, .optional = IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    Row{.from = IBV_QPS_RTS,
        .to = IBV_QPS_RTS,
        .rc = {.optional = kLive | IBV_QP_MIN_RNR_TIMER},
        .uc = {.optional = kLive},
        .ud = {.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    Row{.from = IBV_QPS_RTS,
        .to = IBV_QPS_SQD,
        .rc = {.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY},
        .uc = {.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY},
        .ud = {.optional = IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    Row{.from = IBV_QPS_SQD,
        .to = IBV_QPS_RTS,
        .rc = {.optional = kLive | IBV_QP_MIN_RNR_TIMER},
        .uc = {.optional = kLive},
        .ud = {.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    Row{.from = IBV_QPS_SQD,
        .to = IBV_QPS_SQD,
        .rc = {.optional = kPort | IBV_QP_AV | kRetries | IBV_QP_MAX_QP_RD_ATOMIC |
                           IBV_QP_MAX_DEST_RD_ATOMIC | kMigrate | IBV_QP_ACCESS_FLAGS |
                           IBV_QP_MIN_RNR_TIMER},
        .uc = {.optional = IBV_QP_AV | kMigrate | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        .ud = {.optional = IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    // A reliable connection is never in SQE, because it goes straight to ERR.
    Row{.from = IBV_QPS_SQE,
        .to = IBV_QPS_RTS,
        .rc = {},
        .uc = {.optional = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
        .ud = {.optional = IBV_QP_CUR_STATE | IBV_QP_QKEY}},
};

}  // namespace

const TransitionAttributes* transition_attributes(ibv_qp_type type, ibv_qp_state from,
                                                  ibv_qp_state to) noexcept {
  static constexpr TransitionAttributes kStateOnly{};
  if (from > IBV_QPS_ERR || to > IBV_QPS_ERR) return nullptr;  // Not a state.
  if (to == IBV_QPS_RESET) return &kStateOnly;
  // A queue pair in RESET has nothing to flush, and the kernel refuses this transition.
  if (to == IBV_QPS_ERR) return from == IBV_QPS_RESET ? nullptr : &kStateOnly;
  for (const Row& row : kTable) {
    if (row.from != from || row.to != to) continue;
    if (type == IBV_QPT_RC) return &row.rc;
    if (type == IBV_QPT_UC) return &row.uc;
    if (type == IBV_QPT_UD) return &row.ud;
  }
  return nullptr;
}

}  // namespace verbatim::detail
