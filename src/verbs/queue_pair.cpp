// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/queue_pair.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "provider/fork_guard.hpp"
#include "verbatim/base/try.hpp"
#include "verbs/address_vector.hpp"
#include "verbs/queue_pair_object.hpp"

namespace verbatim {
namespace detail {

Result<void> QueuePairObject::modify(ibv_qp_attr& attributes, unsigned mask, QueuePairState from) {
  VERBATIM_TRY(raw.context().usable("ibv_modify_qp"));
  const auto target =
      (mask & IBV_QP_STATE) != 0 ? static_cast<QueuePairState>(attributes.qp_state) : from;
  VERBATIM_TRY(check_transition({options.type, from, target}, mask));
  if (const int failed = raw.provider().modify_qp(raw.get(), &attributes, static_cast<int>(mask)))
    return std::unexpected(
        os_failure("ibv_modify_qp", os_error_of(failed)).with_text(to_string(target)));
  return {};
}

Result<void> QueuePairObject::to_init() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = partition_key_index;
  attributes.port_num = port.number;
  unsigned mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (options.type == QueuePairType::unreliable_datagram) {
    attributes.qkey = std::to_underlying(options.queue_key);
    mask |= IBV_QP_QKEY;
  } else {
    attributes.qp_access_flags = options.access.get().bits;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  return modify(attributes, mask, QueuePairState::reset);
}

Result<void> QueuePairObject::to_ready_to_receive() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  unsigned mask = IBV_QP_STATE;
  if (options.type != QueuePairType::unreliable_datagram) {
    attributes.ah_attr = address_vector(address_of(agreement.path, port.number, options.route));
    attributes.path_mtu = static_cast<ibv_mtu>(agreement.mtu);
    attributes.dest_qp_num = std::to_underlying(agreement.remote_queue_pair);
    attributes.rq_psn = agreement.receive_psn.value();
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (options.type == QueuePairType::reliable_connection) {
    attributes.max_dest_rd_atomic = agreement.max_dest_read_atomic;
    attributes.min_rnr_timer = options.min_rnr_timer.code();
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return modify(attributes, mask, QueuePairState::initialized);
}

Result<void> QueuePairObject::to_ready_to_send() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = endpoint.psn.value();
  unsigned mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (options.type == QueuePairType::reliable_connection) {
    attributes.timeout = agreement.ack_timeout.code();
    attributes.retry_cnt = options.max_ack_retries.code();
    attributes.rnr_retry = options.max_rnr_retries.code();
    attributes.max_rd_atomic = agreement.max_read_atomic;
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return modify(attributes, mask, QueuePairState::ready_to_receive);
}

Result<void> QueuePairObject::to(QueuePairState target) {
  ibv_qp_attr attributes{};
  attributes.qp_state = static_cast<ibv_qp_state>(target);
  // Allowed from every state, so there is no need to query the present one.
  return modify(attributes, IBV_QP_STATE, QueuePairState::ready_to_send);
}

Result<QueuePairState> QueuePairObject::query_state() const {
  VERBATIM_TRY(raw.context().usable("ibv_query_qp"));
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (const int failed = raw.provider().query_qp(raw.get(), &attributes, IBV_QP_STATE, &init))
    return std::unexpected(os_failure("ibv_query_qp", os_error_of(failed)));
  return static_cast<QueuePairState>(attributes.qp_state);
}

}  // namespace detail

Result<PreparedQueuePair> QueuePair::prepare(const QueuePairOptions& options) {
  const CompletionQueue& send = options.send_completions;
  const CompletionQueue& receive = options.receive_completions;
  const auto& shared = options.shared_receive_queue;
  const ProtectionDomain& domain = options.domain;
  return PreparedQueuePair{VERBATIM_TRY(detail::QueuePairObject::create(
      options, {domain.state_, send.state_, receive.state_, shared ? shared->state_ : nullptr}))};
}

namespace {

detail::PostLimits limits_of(const detail::QueuePairObject& object) noexcept {
  const bool connected = object.options.type != QueuePairType::unreliable_datagram;
  const bool reads = object.agreement.max_read_atomic > 0;
  const std::uint32_t longest = std::min(object.limits.max_message_bytes, UINT32_MAX - 1);
  return {object.limits, connected ? longest + 1 : 0, reads, object.agreement.atomics && reads};
}

}  // namespace

QueuePair::QueuePair(std::unique_ptr<detail::QueuePairObject> state) noexcept
    : raw_(state->raw.get()), limits_(limits_of(*state)), state_(std::move(state)) {}
QueuePair::QueuePair(QueuePair&& other) noexcept
    : raw_(std::exchange(other.raw_, nullptr)),
      limits_(other.limits_),
      state_(std::move(other.state_)) {}
QueuePair& QueuePair::operator=(QueuePair&& other) noexcept {
  raw_ = std::exchange(other.raw_, nullptr);
  limits_ = other.limits_;
  state_ = std::move(other.state_);
  return *this;
}
QueuePair::~QueuePair() = default;

QueuePairType QueuePair::type() const noexcept { return state_->options.type; }
const Agreement& QueuePair::agreement() const noexcept { return state_->agreement; }
const Endpoint& QueuePair::endpoint() const noexcept { return state_->endpoint; }
const ProtectionDomain& QueuePair::domain() const noexcept { return state_->options.domain; }
EventFlags QueuePair::events() const noexcept {
  return EventFlags::from_bits(state_->marks.load());
}
Result<QueuePairState> QueuePair::query_state() const { return state_->query_state(); }

bool QueuePair::writes_in_order() const noexcept {
  return state_->raw.provider().query_qp_data_in_order(raw_, IBV_WR_RDMA_WRITE, 0) == 1;
}

Result<AddressHandle> QueuePair::address_handle(const Endpoint& peer) const {
  const Path path = VERBATIM_TRY(choose_path(state_->endpoint, peer));
  return domain().create_address_handle(
      detail::address_of(path, state_->port.number, state_->options.route));
}

namespace {

/// Works for a queue pair that was moved from or destroyed, too, because a caller that prints one
/// wants to see that.
std::string describe(const detail::QueuePairObject* object) {
  if (object == nullptr) return "queue pair, moved from";
  std::string text = to_string(object->endpoint.type);
  text += ' ';
  text += detail::name_of_queue_pair(object->endpoint.queue_pair, object->raw.context().raw)
              .text.data();
  text += " port " + std::to_string(object->port.number);
  return object->raw.get() != nullptr ? text : text + ", destroyed";
}

Result<void> destroy(detail::QueuePairObject& object) {
  object.raw.context().events.remove(object.raw.get());  // Events must not find it half gone.
  if (const int failed = object.raw.destroy_now())
    return std::unexpected(os_failure("ibv_destroy_qp", failed));
  return {};
}

}  // namespace

std::string to_string(const PreparedQueuePair& queue_pair) {
  const auto* const object = queue_pair.state_.get();
  const bool there = object != nullptr && object->raw.get() != nullptr;
  return describe(object) + (there ? ", not connected" : "");
}

std::string to_string(const QueuePair& queue_pair) {
  const auto* const object = queue_pair.state_.get();
  std::string text = describe(object);
  if (object == nullptr || object->raw.get() == nullptr ||
      object->options.type == QueuePairType::unreliable_datagram)
    return text;
  std::array<char, 16> peer{};
  std::snprintf(peer.data(), peer.size(), ", to 0x%06x",
                std::to_underlying(object->agreement.remote_queue_pair));
  return text += peer.data();
}

Result<void> QueuePair::destroy() { return verbatim::destroy(*state_); }
Result<void> PreparedQueuePair::destroy() { return verbatim::destroy(*state_); }

Result<void> QueuePair::move_to_error() { return state_->to(QueuePairState::error); }

Result<PreparedQueuePair> QueuePair::reset() && {
  VERBATIM_TRY(state_->to(QueuePairState::reset));
  // Our own limit, without that of the former peer.
  state_->limits.max_message_bytes = state_->endpoint.max_message_bytes;
  VERBATIM_TRY(state_->describe());
  VERBATIM_TRY(state_->to_init());
  state_->agreement = {};
  // Discards events from before the reset, including unread ones. If they cannot be read, the
  // device is gone, and connecting will report that.
  [[maybe_unused]] const auto read = state_->raw.context().events.dispatch();
  state_->marks = 0;
  return PreparedQueuePair{std::move(state_)};
}

PreparedQueuePair::PreparedQueuePair(std::unique_ptr<detail::QueuePairObject> state) noexcept
    : state_(std::move(state)) {}
PreparedQueuePair::PreparedQueuePair(PreparedQueuePair&&) noexcept = default;
PreparedQueuePair& PreparedQueuePair::operator=(PreparedQueuePair&&) noexcept = default;
PreparedQueuePair::~PreparedQueuePair() = default;

const Endpoint& PreparedQueuePair::endpoint() const noexcept { return state_->endpoint; }
QpNumber PreparedQueuePair::number() const noexcept { return state_->endpoint.queue_pair; }
const QueuePairLimits& PreparedQueuePair::limits() const noexcept { return state_->limits; }

Result<QueuePair> PreparedQueuePair::connect(const Endpoint& peer) && {
  if (state_->options.type == QueuePairType::unreliable_datagram)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "connect",
                                 .field = "type: datagrams have no peer, use activate()",
                                 .value = std::to_underlying(state_->options.type)});
  state_->agreement = VERBATIM_TRY(negotiate(state_->endpoint, peer));
  state_->limits.max_message_bytes = state_->agreement.max_message_bytes;
  VERBATIM_TRY(state_->to_ready_to_receive());
  VERBATIM_TRY(state_->to_ready_to_send());
  return QueuePair{std::move(state_)};
}

Result<QueuePair> PreparedQueuePair::activate() && {
  if (state_->options.type != QueuePairType::unreliable_datagram)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "activate",
                                 .field = "type: a connection needs a peer, use connect()",
                                 .value = std::to_underlying(state_->options.type)});
  VERBATIM_TRY(state_->to_ready_to_receive());
  VERBATIM_TRY(state_->to_ready_to_send());
  return QueuePair{std::move(state_)};
}
}  // namespace verbatim
