// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/transition.hpp"

#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <cstdio>
#include <utility>

#include "base/transition_table.hpp"

namespace verbatim {
namespace {

using enum QueuePairState;

/// Indexed by the attribute's bit.
constexpr std::array kAttributeNames = {
    "IBV_QP_STATE",
    "IBV_QP_CUR_STATE",
    "IBV_QP_EN_SQD_ASYNC_NOTIFY",
    "IBV_QP_ACCESS_FLAGS",
    "IBV_QP_PKEY_INDEX",
    "IBV_QP_PORT",
    "IBV_QP_QKEY",
    "IBV_QP_AV",
    "IBV_QP_PATH_MTU",
    "IBV_QP_TIMEOUT",
    "IBV_QP_RETRY_CNT",
    "IBV_QP_RNR_RETRY",
    "IBV_QP_RQ_PSN",
    "IBV_QP_MAX_QP_RD_ATOMIC",
    "IBV_QP_ALT_PATH",
    "IBV_QP_MIN_RNR_TIMER",
    "IBV_QP_SQ_PSN",
    "IBV_QP_MAX_DEST_RD_ATOMIC",
    "IBV_QP_PATH_MIG_STATE",
    "IBV_QP_CAP",
    "IBV_QP_DEST_QPN",
};
static_assert(IBV_QP_DEST_QPN == 1u << (kAttributeNames.size() - 1));

const char* name_of(unsigned attribute_bit) noexcept {
  if (attribute_bit == IBV_QP_RATE_LIMIT) return "IBV_QP_RATE_LIMIT";
  const auto index = static_cast<std::size_t>(std::countr_zero(attribute_bit));
  return index < kAttributeNames.size() ? kAttributeNames[index] : "attributes";
}

const detail::TransitionAttributes* attributes_of(const Transition& transition) noexcept {
  // Checked here and not by the table, because a C enum may not be able to hold such a number.
  if (transition.from > error || transition.to > error) return nullptr;
  return detail::transition_attributes(
      static_cast<ibv_qp_type>(std::to_underlying(transition.type)),
      static_cast<ibv_qp_state>(std::to_underlying(transition.from)),
      static_cast<ibv_qp_state>(std::to_underlying(transition.to)));
}

/// The states as "INIT -> RTR", in a fixed buffer, because this path must not allocate.
Error with_states(Error error, const char* prefix, const Transition& transition) noexcept {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%s%s -> %s", prefix, to_string(transition.from),
                to_string(transition.to));
  return error.with_text(text.data());
}

Error wrong_attribute(const Transition& transition, const char* prefix, unsigned bits) noexcept {
  const unsigned first = bits & (~bits + 1);
  return with_states({.code = Errc::invalid_argument,
                      .operation = "ibv_modify_qp",
                      .field = name_of(first),
                      .value = first},
                     prefix, transition);
}

}  // namespace

const char* to_string(QueuePairState state) noexcept {
  switch (state) {
    case reset: return "RESET";
    case initialized: return "INIT";
    case ready_to_receive: return "RTR";
    case ready_to_send: return "RTS";
    case send_queue_drained: return "SQD";
    case send_queue_error: return "SQE";
    case error: return "ERR";
  }
  return "unknown";
}

Result<void> check_transition(Transition transition, unsigned attributes) noexcept {
  const detail::TransitionAttributes* allowed = attributes_of(transition);
  if (allowed == nullptr)
    return std::unexpected(with_states({.code = Errc::invalid_argument,
                                        .operation = "ibv_modify_qp",
                                        .field = "state",
                                        .value = std::to_underlying(transition.from),
                                        .limit = std::to_underlying(transition.to)},
                                       "", transition));

  const unsigned required = allowed->required | IBV_QP_STATE;
  if (const unsigned missing = required & ~attributes; missing != 0)
    return std::unexpected(wrong_attribute(transition, "missing: ", missing));
  if (const unsigned extra = attributes & ~(required | allowed->optional); extra != 0)
    return std::unexpected(wrong_attribute(transition, "extra: ", extra));
  return {};
}

}  // namespace verbatim
