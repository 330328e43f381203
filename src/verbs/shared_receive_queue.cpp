// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/shared_receive_queue.hpp"

#include <cerrno>

#include "verbatim/base/try.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbs/shared_receive_state.hpp"

namespace verbatim {

detail::SharedReceiveQueueState::SharedReceiveQueueState(DomainPtr owner, Handle<ibv_srq> handle,
                                                         const ibv_srq_attr& made)
    : domain(std::move(owner)),
      max_requests(made.max_wr),
      max_elements(made.max_sge),
      raw(std::move(handle)) {
  raw.context().events.add(raw.get(), {&marks});
}

detail::SharedReceiveQueueState::~SharedReceiveQueueState() {
  raw.context().events.remove(raw.get());
}

Result<SharedReceiveQueue> ProtectionDomain::create_shared_receive_queue(
    const SharedReceiveQueueOptions& options) const {
  constexpr const char* kOperation = "ibv_create_srq";
  detail::ContextState& context = state_->raw.context();
  VERBATIM_TRY(context.usable(kOperation));
  const Capabilities& device = context.capabilities;
  if (!device.shared_receive_queue)
    return std::unexpected(
        Error{.code = Errc::unsupported, .operation = kOperation, .field = "shared receive queue"});
  const auto beyond = [](const char* field, std::uint32_t asked, std::uint32_t limit) {
    return std::unexpected(Error{.code = asked == 0 ? Errc::invalid_argument : Errc::limit_exceeded,
                                 .operation = kOperation,
                                 .field = field,
                                 .value = asked,
                                 .limit = limit});
  };
  const std::uint32_t requests = options.max_requests;
  if (requests == 0 || requests > device.max_shared_receive_requests)
    return beyond("max_requests", requests, device.max_shared_receive_requests);
  if (options.max_elements == 0 || options.max_elements > device.max_shared_receive_elements)
    return beyond("max_elements", options.max_elements, device.max_shared_receive_elements);

  ibv_srq_init_attr init{};
  init.attr.max_wr = requests;
  init.attr.max_sge = options.max_elements;
  ibv_srq* const raw = context.provider.create_srq(state_->raw.get(), &init);
  if (raw == nullptr) return std::unexpected(os_failure(kOperation, errno));
  detail::Handle<ibv_srq> handle{state_->raw.context_ptr(), raw, context.provider.destroy_srq,
                                 "ibv_destroy_srq"};
  VERBATIM_TRY(context.events.start());
  return SharedReceiveQueue{
      std::make_shared<detail::SharedReceiveQueueState>(state_, std::move(handle), init.attr)};
}

SharedReceiveQueue::SharedReceiveQueue(
    std::shared_ptr<detail::SharedReceiveQueueState> state) noexcept
    : raw_(state->raw.get()), max_elements_(state->max_elements), state_(std::move(state)) {}

std::uint32_t SharedReceiveQueue::max_requests() const noexcept { return state_->max_requests; }

Result<void> SharedReceiveQueue::arm_limit(std::uint32_t requests) const {
  VERBATIM_TRY(state_->raw.context().usable("ibv_modify_srq"));
  if (requests > state_->max_requests)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = "ibv_modify_srq",
                                 .field = "limit",
                                 .value = requests,
                                 .limit = state_->max_requests});
  ibv_srq_attr attributes{};
  attributes.srq_limit = requests;
  if (const int failed = state_->raw.provider().modify_srq(raw_, &attributes, IBV_SRQ_LIMIT))
    return std::unexpected(os_failure("ibv_modify_srq", detail::os_error_of(failed)));
  return {};
}

Result<std::uint32_t> SharedReceiveQueue::limit() const {
  VERBATIM_TRY(state_->raw.context().usable("ibv_query_srq"));
  ibv_srq_attr attributes{};
  if (const int failed = state_->raw.provider().query_srq(raw_, &attributes))
    return std::unexpected(os_failure("ibv_query_srq", detail::os_error_of(failed)));
  return attributes.srq_limit;
}

EventFlags SharedReceiveQueue::events() const noexcept {
  return EventFlags::from_bits(state_->marks.load());
}

}  // namespace verbatim
