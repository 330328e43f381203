// SPDX-License-Identifier: MIT OR Apache-2.0
// Creating a queue pair: its limits, room in the completion queues, and the description for the
// peer.
#include <algorithm>
#include <cerrno>

#include "verbatim/base/try.hpp"
#include "verbatim/verbs/queue_pair.hpp"
#include "verbs/queue_pair_object.hpp"

namespace verbatim::detail {
namespace {

constexpr const char* kOperation = "ibv_create_qp";

/// A value that the caller requests must fit. A default is lowered until it fits.
Result<std::uint32_t> within(const char* field, std::optional<std::uint32_t> asked,
                             std::uint32_t fallback, std::uint32_t limit) {
  if (!asked) return std::min(fallback, limit);
  if (*asked <= limit) return *asked;
  return std::unexpected(Error{.code = Errc::limit_exceeded,
                               .operation = kOperation,
                               .field = field,
                               .value = *asked,
                               .limit = limit});
}

Result<void> check_supported(const Capabilities& device, const QueuePairOptions& options) {
  const bool offered =
      options.type == QueuePairType::reliable_connection     ? device.reliable_connection
      : options.type == QueuePairType::unreliable_connection ? device.unreliable_connection
                                                             : device.unreliable_datagram;
  if (!offered)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = kOperation, .field = to_string(options.type)}
            .with_text(device.no_connection_reason));
  if (options.access.get().has(Access::remote_atomic) && !device.atomics)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = kOperation, .field = "atomics"});
  const auto refuse = [](const char* field, std::uint64_t value, std::uint64_t limit) {
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = kOperation,
                                 .field = field,
                                 .value = value,
                                 .limit = limit});
  };
  const RouteOptions& route = options.route;
  if (route.service_level > 15) return refuse("service_level", route.service_level, 15);
  if (route.flow_label > 0xfffff) return refuse("flow_label", route.flow_label, 0xfffff);
  return {};
}

Result<ibv_qp_cap> requested_limits(const Capabilities& device, const QueuePairOptions& options) {
  ibv_qp_cap cap{};
  cap.max_send_wr = VERBATIM_TRY(
      within("max_send_requests", options.max_send_requests, 128, device.max_requests));
  cap.max_send_sge =
      VERBATIM_TRY(within("max_send_elements", options.max_send_elements, 4, device.max_elements));
  cap.max_inline_data = options.max_inline_bytes.value_or(64);
  if (options.shared_receive_queue) {
    if (options.max_receive_requests || options.max_receive_elements)
      return std::unexpected(Error{.code = Errc::invalid_argument,
                                   .operation = kOperation,
                                   .field = "max_receive_requests with a shared receive queue",
                                   .value = options.max_receive_requests.value_or(0)});
    return cap;
  }
  cap.max_recv_wr = VERBATIM_TRY(
      within("max_receive_requests", options.max_receive_requests, 128, device.max_requests));
  cap.max_recv_sge = VERBATIM_TRY(
      within("max_receive_elements", options.max_receive_elements, 4, device.max_elements));
  return cap;
}

ibv_qp_type raw_type(QueuePairType type) noexcept {
  static_assert(std::to_underlying(QueuePairType::reliable_connection) == IBV_QPT_RC &&
                std::to_underlying(QueuePairType::unreliable_connection) == IBV_QPT_UC &&
                std::to_underlying(QueuePairType::unreliable_datagram) == IBV_QPT_UD);
  return static_cast<ibv_qp_type>(std::to_underlying(type));
}

/// Whether the error may mean that the device does not accept this much inline data. A second
/// attempt after any other error would hide that error, or create a queue pair that is worse than
/// necessary.
bool can_mean_inline(int os_error) noexcept {
  return os_error == EINVAL || os_error == EOPNOTSUPP || os_error == ENOSYS || os_error == ENOMEM;
}

/// No query returns how much inline data a device accepts; only creating shows it. If the device
/// refuses the size, a default falls back to none, and a caller that requested the size gets an
/// error.
Result<ibv_qp*> create_raw(const Provider& provider, ibv_pd* domain, ibv_qp_init_attr& init,
                           const QueuePairOptions& options) {
  const ibv_qp_cap wanted = init.cap;
  if (ibv_qp* const raw = provider.create_qp(domain, &init)) return raw;
  const int refusal = errno;
  if (wanted.max_inline_data > 0 && can_mean_inline(refusal)) {
    init.cap = wanted;
    init.cap.max_inline_data = 0;
    if (ibv_qp* const raw = provider.create_qp(domain, &init)) {
      if (!options.max_inline_bytes) return raw;
      provider.destroy_qp(raw);
      return std::unexpected(Error{.code = Errc::limit_exceeded,
                                   .os_error = refusal,
                                   .operation = kOperation,
                                   .field = "max_inline_bytes",
                                   .value = wanted.max_inline_data});
    }
  }
  return std::unexpected(os_failure(kOperation, refusal));
}

}  // namespace

Result<Reservation> Reservation::make(const std::shared_ptr<CompletionQueueState>& send,
                                      const std::shared_ptr<CompletionQueueState>& receive,
                                      const SharedReceiveQueueState* shared,
                                      const QueuePairLimits& limits) {
  Reservation made;
  if (shared != nullptr) {
    VERBATIM_TRY(receive->reserve_shared(shared, shared->max_requests));
    made.shared_ = shared;
    made.receive_ = receive;
    made.receive_entries_ = shared->max_requests;
    VERBATIM_TRY(send->reserve(limits.max_send_requests));
  } else if (send == receive) {
    // Reserves both at once, so that a refusal names the whole need.
    VERBATIM_TRY(send->reserve(limits.max_send_requests + limits.max_receive_requests));
    made.receive_ = receive;
    made.receive_entries_ = limits.max_receive_requests;
  } else {
    VERBATIM_TRY(receive->reserve(limits.max_receive_requests));
    made.receive_ = receive;
    made.receive_entries_ = limits.max_receive_requests;
    VERBATIM_TRY(send->reserve(limits.max_send_requests));
  }
  made.send_ = send;
  made.send_entries_ = limits.max_send_requests;
  return made;
}

Reservation::~Reservation() {
  if (receive_ && shared_ != nullptr) receive_->release_shared(shared_, receive_entries_, used_);
  if (receive_ && shared_ == nullptr) receive_->release(receive_entries_, used_);
  if (send_) send_->release(send_entries_, used_);
}

QueuePairObject::QueuePairObject(QueuePairOptions chosen, Reservation room, Handle<ibv_qp> handle,
                                 QueuePairLimits made)
    : options(std::move(chosen)),
      limits(made),
      reservation(std::move(room)),
      raw(std::move(handle)) {}

QueuePairObject::~QueuePairObject() { raw.context().events.remove(raw.get()); }

Result<std::unique_ptr<QueuePairObject>> QueuePairObject::create(const QueuePairOptions& options,
                                                                 const QueuePairParents& parents) {
  const ContextPtr& context = parents.domain->raw.context_ptr();
  VERBATIM_TRY(context->usable(kOperation));
  VERBATIM_TRY(check_supported(context->capabilities, options));
  ibv_qp_init_attr init{};
  init.qp_type = raw_type(options.type);
  init.send_cq = parents.send->raw.get();
  init.recv_cq = parents.receive->raw.get();
  init.srq = parents.shared ? parents.shared->raw.get() : nullptr;
  init.cap = VERBATIM_TRY(requested_limits(context->capabilities, options));
  const Port port = VERBATIM_TRY(choose_port(*context, options.route));
  VERBATIM_TRY(context->events.start());

  ibv_qp* const raw =
      VERBATIM_TRY(create_raw(context->provider, parents.domain->raw.get(), init, options));
  Handle<ibv_qp> handle{context, raw, context->provider.destroy_qp, "ibv_destroy_qp"};
  const bool datagram = options.type == QueuePairType::unreliable_datagram;
  const QueuePairLimits limits{
      .max_send_requests = init.cap.max_send_wr,
      .max_receive_requests = init.cap.max_recv_wr,
      .max_send_elements = init.cap.max_send_sge,
      .max_receive_elements = init.cap.max_recv_sge,
      .max_inline_bytes = init.cap.max_inline_data,
      .max_message_bytes = datagram ? byte_count(port.active_mtu) : port.max_message_bytes,
  };
  auto room =
      VERBATIM_TRY(Reservation::make(parents.send, parents.receive, parents.shared.get(), limits));
  auto state =
      std::make_unique<QueuePairObject>(options, std::move(room), std::move(handle), limits);
  state->port = port;
  context->events.add(raw, {&state->marks, port.number});
  VERBATIM_TRY(state->describe());
  VERBATIM_TRY(state->to_init());
  state->reservation.mark_used();
  return state;
}

Result<void> QueuePairObject::describe() {
  const ContextState& context = raw.context();
  const Capabilities& device = context.capabilities;
  const auto partition = VERBATIM_TRY(choose_partition(context, port, options.route));
  partition_key_index = partition.index;
  const std::optional<std::uint32_t> read_atomic = options.max_read_atomic;
  const std::uint32_t initiator = VERBATIM_TRY(
      within("max_read_atomic", read_atomic, 16, std::min(device.max_read_atomic_initiator, 255u)));
  const std::uint32_t responder = VERBATIM_TRY(
      within("max_read_atomic", read_atomic, 16, std::min(device.max_read_atomic_responder, 255u)));
  auto gids = VERBATIM_TRY(candidate_gids(context, port, options.route));
  endpoint = Endpoint{
      .nonce = random_nonce(),
      .transport = context.transport,
      .fabric_id = context.provider.fabric_id(context.raw),
      .link_layer = port.link_layer,
      .lid = port.lid,
      .gids = std::move(gids),
      .grh_required = port.grh_required,
      .type = options.type,
      .queue_pair = QpNumber{raw.get()->qp_num},
      .psn = options.psn.value_or(PacketSequenceNumber::random()),
      .partition_key = partition.key,
      .queue_key = options.queue_key,
      .mtu = std::min(options.mtu.value_or(port.active_mtu), port.active_mtu),
      .read_atomic_initiator = static_cast<std::uint8_t>(initiator),
      .read_atomic_responder = static_cast<std::uint8_t>(responder),
      .max_message_bytes = limits.max_message_bytes,
      .ack_timeout = options.ack_timeout,
      .min_rnr_timer = options.min_rnr_timer,
      .atomics = device.atomics,
      .remote_write = options.access.get().has(Access::remote_write),
  };
  return {};
}

}  // namespace verbatim::detail
