// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/address_handle.hpp"

#include <algorithm>
#include <cerrno>

#include "verbatim/base/try.hpp"
#include "verbatim/verbs/protection_domain.hpp"
#include "verbs/address_vector.hpp"
#include "verbs/domain_state.hpp"

namespace verbatim {

ibv_ah_attr detail::address_vector(const AddressOptions& options) noexcept {
  ibv_ah_attr attributes{};
  attributes.dlid = std::to_underlying(options.remote_lid);
  attributes.sl = options.service_level;
  attributes.port_num = options.port;
  attributes.is_global = options.global ? 1 : 0;
  if (options.global) {
    std::ranges::copy(options.remote_gid.bytes, std::begin(attributes.grh.dgid.raw));
    attributes.grh.sgid_index = static_cast<std::uint8_t>(options.local_gid_index);
    attributes.grh.flow_label = options.flow_label;
    attributes.grh.traffic_class = options.traffic_class;
    attributes.grh.hop_limit = options.hop_limit;
  }
  return attributes;
}

AddressHandle::AddressHandle(std::unique_ptr<detail::AddressHandleState> state) noexcept
    : raw_(state->raw.get()), state_(std::move(state)) {}
AddressHandle::AddressHandle(AddressHandle&&) noexcept = default;
AddressHandle& AddressHandle::operator=(AddressHandle&&) noexcept = default;
AddressHandle::~AddressHandle() = default;

Result<AddressHandle> ProtectionDomain::create_address_handle(const AddressOptions& options) const {
  detail::ContextState& context = state_->raw.context();
  const Port port = VERBATIM_TRY(context.query_port(options.port));
  if (port.link_layer == LinkLayer::ethernet && !options.global)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "ibv_create_ah",
                                 .field = "global: required on Ethernet",
                                 .value = 0,
                                 .limit = 1});
  const auto refuse = [](const char* field, std::uint64_t value, std::uint64_t limit) {
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = "ibv_create_ah",
                                 .field = field,
                                 .value = value,
                                 .limit = limit});
  };
  if (options.service_level > 15) return refuse("service_level", options.service_level, 15);
  if (options.flow_label > 0xfffff) return refuse("flow_label", options.flow_label, 0xfffff);
  if (options.local_gid_index > detail::kMaxGidIndex)
    return refuse("local_gid_index", options.local_gid_index, detail::kMaxGidIndex);
  ibv_ah_attr attributes = detail::address_vector(options);
  ibv_ah* const raw = context.provider.create_ah(state_->raw.get(), &attributes);
  if (raw == nullptr)
    return std::unexpected(
        os_failure("ibv_create_ah", errno).with_text(to_string(options.remote_gid)));
  return AddressHandle{std::make_unique<detail::AddressHandleState>(
      state_, detail::Handle<ibv_ah>{state_->raw.context_ptr(), raw, context.provider.destroy_ah,
                                     "ibv_destroy_ah"})};
}

}  // namespace verbatim
